"""`hearth auth status` as typed, where nobody is logged in."""

from e2e.cli_home import Home


def test_a_server_with_an_unset_variable_says_so_and_keeps_no_other_from_being_shown(home: Home) -> None:
    home.write_config(
        '[mcpServers.a]\nurl = "https://a.example/mcp"\n'
        '[mcpServers.b]\nurl = "https://b.example/mcp"\nheaders = { X-Api-Key = "${OC_KEY}" }\n'
    )
    done = home.run("auth", "status")
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "not logged in" in rows["a"]
    assert "unresolved" in rows["b"]
    assert "OC_KEY" in done.stderr
    (one,) = home.json("auth", "status", "b", "--json")
    assert (one["state"], "OC_KEY" in one["problems"][0]) == ("unresolved", True)
