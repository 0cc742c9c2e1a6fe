"""What can go wrong between this program and an API server."""

from __future__ import annotations

from pilotage.model.errors import PilotageError


class KubeError(PilotageError):
    """The API server refused a request. `reason` is the machine-readable word of its Status, such as NotFound, `causes`
    are those of its details, such as DisruptionBudget."""

    def __init__(self, status: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        super().__init__(f"the API server answered {status} {reason}: {message}" if message else f"{status} {reason}")
        self.status, self.reason, self.causes = status, reason, causes


class UnreachableError(PilotageError):
    """No answer: the server cannot be reached, there is no token for it, or the connection was lost on the way."""


class ExpiredError(PilotageError):
    """A watch cannot go on from where it was (410): list again."""


class EndedError(PilotageError):
    """Something that should go on for ever has ended: what is known of the cluster would go stale unnoticed."""

    exit_code = 1

    def __init__(self, what: str, error: BaseException | None) -> None:
        why = f": {type(error).__name__}: {error}" if error is not None else ""
        super().__init__(f"{what} has ended{why}")
