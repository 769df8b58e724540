"""A query that this process runs itself: a thread with the methods of Spark's queries."""

import threading


class QueryThread:
    """`_work` is done in a thread; an error in it ends the query."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the query after the present batch."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        for part in (self._work, self._end):
            try:
                part()
            except Exception as error:
                self._error = self._error or error

    def _work(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        """Done also after an error, which is the one to tell."""
