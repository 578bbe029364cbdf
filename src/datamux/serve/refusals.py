"""How a request can end without answers."""


class Refused(Exception):
    """The request was not accepted. `retry_after` says in how many seconds it may be worth another try."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(Refused):
    """Too many texts wait already."""


class Unavailable(Refused):
    """The server is shutting down, or its model does not answer."""


class TimedOut(Exception):
    """The request was accepted but not answered in time."""


class PassFailed(Exception):
    """The model failed on this text, also when it was run by itself."""


class BadInput(ValueError):
    """The client sent something that cannot be answered; the message is for the client."""
