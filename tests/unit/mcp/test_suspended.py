"""The table of parked calls: every row, and every late event."""

import pytest

from hearth.errors import MessageError
from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.questions import Question
from hearth.mcp.request_state import StateRefused
from hearth.mcp.suspended import (
    Answer,
    CallAgain,
    Cancel,
    Deliver,
    Fail,
    Instruction,
    Park,
    Refuse,
    Suspended,
    SuspendedState,
)
from unit.mcp.suspended_calls import (
    ACCEPT,
    DECLINE,
    PATIENCE,
    ROOT,
    ROOT_LIST,
    SAMPLE,
    SAMPLED,
    asking,
    done,
    finished,
    form,
    open_questions,
    retry,
    running,
    takes_all,
    takes_none,
    url,
    visiting,
    waiting,
)


def test_a_call_that_asks_nothing_is_answered() -> None:
    call = running()
    assert call.finished("x") == [Answer("x")]
    assert call.state is SuspendedState.DONE


def test_a_question_parks_the_call() -> None:
    call = running()
    assert call.question(b"1", form(), 5.0) == [Park(1, {"q1": form()}, 15.0)]
    assert call.state is SuspendedState.ASKING
    assert not call.attached


def test_a_question_is_put_in_modern_words() -> None:
    (park,) = running().question(b"1", url("e"), 0.0)
    assert isinstance(park, Park)
    assert park.questions == {"q1": url(None)}


def test_a_question_that_the_client_does_not_take_is_refused_and_the_call_goes_on() -> None:
    call: Suspended[str] = Suspended(PATIENCE, takes_none)
    assert call.question(b"1", form(), 0.0) == [Refuse(b"1", f"no {ELICITATION}")]
    assert call.state is SuspendedState.RUNNING
    assert call.finished("x") == [Answer("x")]


@pytest.mark.parametrize("question", [Question("tools/call", b"{}"), Question(ROOTS, b"[]")])
def test_a_question_that_is_none_is_refused(question: Question) -> None:
    call = running()
    (refusal,) = call.question(b"1", question, 0.0)
    assert isinstance(refusal, Refuse)
    assert call.state is SuspendedState.RUNNING


@pytest.mark.parametrize("result", [ACCEPT, DECLINE, b'{"action":"cancel"}'])
def test_the_answer_goes_to_the_server_whatever_it_is_and_the_retry_waits_for_the_call(result: bytes) -> None:
    call = asking()
    assert retry(call, q1=result) == [Deliver(b"1", ELICITATION, result)]
    assert call.state is SuspendedState.RUNNING
    assert call.finished("x") == [Answer("x")]


def test_questions_gathered_meanwhile_go_in_one_round() -> None:
    call = asking(form(), ROOT, SAMPLE)
    assert retry(call, q1=ACCEPT) == [Deliver(b"1", ELICITATION, ACCEPT), Park(2, {"q2": ROOT, "q3": SAMPLE}, 11.0)]
    assert retry(call, q2=ROOT_LIST, q3=SAMPLED) == [Deliver(b"2", ROOTS, ROOT_LIST), Deliver(b"3", SAMPLING, SAMPLED)]


def test_what_was_not_answered_is_asked_again_under_its_key_with_what_came_since() -> None:
    call = asking(form("a"), form("b"))
    retry(call, q1=ACCEPT)
    call.question(b"3", ROOT, 1.0)
    assert retry(call) == [Park(3, {"q2": form("b"), "q3": ROOT}, 11.0)]
    assert retry(call, q3=ROOT_LIST) == [Deliver(b"3", ROOTS, ROOT_LIST), Park(4, {"q2": form("b")}, 11.0)]


def test_answers_to_nothing_are_ignored_and_answers_ahead_of_their_question_too() -> None:
    call = asking(form(), form())
    assert retry(call, q1=ACCEPT, q2=ACCEPT, other=b"7") == [
        Deliver(b"1", ELICITATION, ACCEPT),
        Park(2, {"q2": form()}, 11.0),
    ]


def test_an_answer_that_is_none_is_refused_and_the_round_stays_open() -> None:
    call = asking()
    with pytest.raises(MessageError, match=r"inputResponses\['q1'\]"):
        retry(call, q1=ROOT_LIST)
    assert call.state is SuspendedState.ASKING
    assert retry(call, q1=ACCEPT) == [Deliver(b"1", ELICITATION, ACCEPT)]


def test_a_retry_that_takes_less_is_asked_less() -> None:
    call = asking(form(), ROOT, SAMPLE)
    no_roots = call.retry(1, {"q1": ACCEPT}, 1.0, lambda question: "no roots" if question == ROOT else None)
    assert no_roots == [Deliver(b"1", ELICITATION, ACCEPT), Refuse(b"2", "no roots"), Park(2, {"q3": SAMPLE}, 11.0)]
    assert call.retry(2, {}, 1.0, takes_none) == [Refuse(b"3", f"no {SAMPLING}")]
    assert call.state is SuspendedState.RUNNING


def test_a_round_is_good_once() -> None:
    call = asking(form(), form())
    retry(call, q1=ACCEPT)
    with pytest.raises(StateRefused) as caught:
        call.retry(1, {"q1": ACCEPT}, 1.0, takes_all)
    assert caught.value.data == {"reason": "spent"}
    retry(call, q2=ACCEPT)
    with pytest.raises(StateRefused):
        call.retry(2, {"q2": ACCEPT}, 1.0, takes_all)


def test_what_finishes_while_parked_is_given_to_the_retry_whatever_it_brings() -> None:
    for responses in ({}, {"q1": ACCEPT}, {"q1": b"1"}):
        call = finished()
        assert call.retry(1, responses, 1.0, takes_none) == [Answer("kept")]
        assert call.state is SuspendedState.DONE


def test_a_withdrawn_question_s_answer_is_dropped() -> None:
    call = asking(form(), ROOT)
    assert call.withdrawn(b"1") == []
    assert call.withdrawn(b"2") == []
    assert open_questions(call) == 0
    assert retry(call, q1=ACCEPT) == []
    assert call.state is SuspendedState.RUNNING


def test_an_expired_round_gives_every_question_up_and_cancels_the_call() -> None:
    call = asking(form(), SAMPLE, ROOT, form())
    assert call.expired(9.9) == []
    cancel = b'{"action":"cancel"}'
    given_up = call.expired(10.0)
    assert [type(each) for each in given_up] == [Deliver, Refuse, Refuse, Deliver, Cancel]
    assert given_up[0] == Deliver(b"1", ELICITATION, cancel)
    assert given_up[3] == Deliver(b"4", ELICITATION, cancel)
    assert call.state is SuspendedState.DONE


@pytest.mark.parametrize("make", [asking, finished, visiting])
def test_a_late_retry_is_refused_as_expired_before_and_never_run_after_the_clock_says_so(make: object) -> None:
    call: Suspended[str] = make()  # type: ignore[operator]
    with pytest.raises(StateRefused) as caught:
        call.retry(1, {}, 10.0, takes_all)
    assert caught.value.data == {"reason": "expired"}
    call.expired(10.0)
    assert call.state is SuspendedState.DONE
    with pytest.raises(StateRefused):
        call.retry(1, {}, 10.0, takes_all)


@pytest.mark.parametrize("make", [running, waiting, done])
def test_the_clock_does_not_touch_a_call_that_somebody_waits_for(make: object) -> None:
    call: Suspended[str] = make()  # type: ignore[operator]
    before = call.state
    assert call.expired(1e9) == []
    assert call.state is before


def test_every_round_has_its_own_time() -> None:
    call = asking()
    assert call.retry(1, {}, 8.0, takes_all) == [Park(2, {"q1": form()}, 18.0)]
    assert call.expired(10.0) == []
    assert call.state is SuspendedState.ASKING


@pytest.mark.parametrize(
    ("make", "instructions"),
    [
        (running, [Cancel()]),
        (asking, [Deliver(b"1", ELICITATION, b'{"action":"cancel"}'), Cancel()]),
        (finished, []),
        (visiting, []),
        (waiting, []),
        (done, []),
    ],
)
def test_a_cancelled_call_ends_at_once(make: object, instructions: list[Instruction[str]]) -> None:
    call: Suspended[str] = make()  # type: ignore[operator]
    assert call.cancelled() == instructions
    assert call.state is SuspendedState.DONE
    assert call.cancelled() == []


def test_demanded_urls_are_asked_for_and_the_call_is_made_again_when_all_are_complete() -> None:
    call = running()
    urls = [url("e1", "a"), url("e2", "b"), url(None, "c")]
    assert call.demanded(urls, 0.0) == [
        Park(1, {"q1": url(None, "a"), "q2": url(None, "b"), "q3": url(None, "c")}, 10.0)
    ]
    assert call.completed("e2") == []
    assert retry(call, q1=ACCEPT, q2=ACCEPT, q3=ACCEPT) == []
    assert call.state is SuspendedState.WAITING
    assert call.attached
    assert call.completed("other") == []
    assert call.completed("e1") == [CallAgain()]
    assert call.state is SuspendedState.RUNNING
    assert call.finished("x") == [Answer("x")]


def test_what_was_complete_before_the_retry_is_not_waited_for() -> None:
    call = visiting()
    call.completed("e")
    assert retry(call, q1=ACCEPT) == [CallAgain()]


def test_without_an_elicitation_id_there_is_nothing_to_wait_for() -> None:
    assert retry(visiting(url(None)), q1=ACCEPT) == [CallAgain()]


def test_the_wait_for_completion_is_bounded() -> None:
    call = waiting()
    assert call.waited_long() == [CallAgain()]
    assert call.state is SuspendedState.RUNNING
    assert call.waited_long() == []


def test_a_url_may_be_demanded_again() -> None:
    call = waiting()
    call.waited_long()
    assert call.demanded([url()], 20.0) == [Park(2, {"q2": url(None)}, 30.0)]


def test_urls_that_were_not_answered_are_asked_for_again() -> None:
    call = visiting(url("e1", "a"), url("e2", "b"))
    assert retry(call, q2=ACCEPT) == [Park(2, {"q1": url(None, "a")}, 11.0)]
    assert retry(call, q1=ACCEPT) == []
    assert call.state is SuspendedState.WAITING


@pytest.mark.parametrize("result", [DECLINE, b'{"action":"cancel"}'])
def test_a_declined_url_fails_the_call(result: bytes) -> None:
    call = visiting()
    (failure,) = retry(call, q1=result)
    assert isinstance(failure, Fail)
    assert failure.missing is None
    assert call.state is SuspendedState.DONE


def test_a_client_that_takes_no_urls_is_told_which_capability_it_lacks() -> None:
    call: Suspended[str] = Suspended(PATIENCE, takes_none)
    assert call.demanded([url()], 0.0) == [Fail(f"no {ELICITATION}", url(None))]
    assert call.state is SuspendedState.DONE
    later = visiting(url("e1"), url("e2"))
    assert later.retry(1, {"q1": ACCEPT}, 1.0, takes_none) == [Fail(f"no {ELICITATION}", url(None))]


def test_urls_demanded_while_parked_are_asked_for_on_the_retry() -> None:
    call = asking(form(), ROOT)
    assert call.demanded([url()], 1.0) == []
    assert call.state is SuspendedState.VISITING
    assert retry(call) == [Park(2, {"q3": url(None)}, 11.0)]
    assert retry(call, q3=ACCEPT) == []
    assert call.completed("e") == [CallAgain()]


@pytest.mark.parametrize("make", [finished, visiting, waiting, done])
def test_late_events_change_nothing(make: object) -> None:
    call: Suspended[str] = make()  # type: ignore[operator]
    before = call.state
    (refusal,) = call.question(b"9", form(), 0.0)
    assert isinstance(refusal, Refuse)
    assert call.finished("late") == []
    assert call.demanded([url()], 0.0) == []
    assert call.withdrawn(b"1") == []
    assert call.state is before


@pytest.mark.parametrize("make", [running, waiting, done])
def test_a_retry_of_what_is_not_parked_is_refused(make: object) -> None:
    call: Suspended[str] = make()  # type: ignore[operator]
    with pytest.raises(StateRefused):
        retry(call, q1=ACCEPT)


# The table of the module's docstring: what may follow what.
