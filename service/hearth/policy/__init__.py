"""Policy: roles, typed permissions, rules and the decision; grants, role tokens, hooks and the audit trail.

    model       immutable types of a policy          loader      policy.toml's bytes to a policy
    patterns    globs over tools and values          captures    typed values: branch, remote, path, word, text
    matchers    templates of commands and arguments  shell       a command line to its simple commands
    protected   files that no agent writes           guard       those files in calls
    decision    allow, deny or ask                   template    text of `hearth policy init`

Nothing here knows sessions, the hub or the daemon. Without a policy.toml the daemon does not import this package.
"""
