"""Runs of a sweep in processes of this machine, without Java: the same rows as on Spark.

A worker is this module, run by the same Python. It reads pickled runs from its standard input, one
at a time, and writes one outcome for each. So a worker that dies takes exactly the run that it was
doing, and another worker takes its place. A worker ends when its input does, or when nobody reads
its outcome: also if the process that started it was killed.
"""

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

import msgspec

from ordercast.pipeline.sweeps.swept_verb import Experiment
from ordercast.pipeline.sweeps.tasks import FinishedRun, Task, failed, perform

_LENGTH = struct.Struct(">Q")
_COMMAND = "import sys; sys.path[:] = {path!r}; from {module} import work; work()"
_DECODER = msgspec.msgpack.Decoder(FinishedRun)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def on_processes(
    experiment: Experiment, count: int
) -> Iterator[Callable[[Sequence[Task]], list[FinishedRun]]]:
    """A runner with this many worker processes; they end with the block."""
    workers = [_Worker(experiment) for _ in range(count)]

    def run(tasks: Sequence[Task]) -> list[FinishedRun]:
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        done: list[FinishedRun] = []
        troubles: list[BaseException] = []

        def serve(worker: _Worker) -> None:
            try:
                while not troubles:
                    done.append(worker.run(waiting.get_nowait()))
            except queue.Empty:
                return
            except BaseException as error:
                troubles.append(error)

        # Threads only wait for the workers. The main thread can be interrupted while it joins them.
        serving = [threading.Thread(target=serve, args=(w,), daemon=True) for w in workers]
        for thread in serving:
            thread.start()
        for thread in serving:
            thread.join()
        if troubles:
            raise troubles[0]
        return done

    try:
        yield run
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """State: the process, which is started when there is something to do."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(self, task: Task) -> FinishedRun:
        """One run; if it kills the worker, a failed run."""
        process = self._started()
        try:
            _write(process.stdin, pickle.dumps(task))
            answer = _read(process.stdout)
        except OSError:
            answer = None
        if answer is not None:
            return _DECODER.decode(answer)
        process.wait()
        self._close()
        return failed(task, f"the worker died: {_ending(process.returncode)}")

    def end(self) -> None:
        self._ended = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._ended:
            raise RuntimeError("the workers have ended")
        if self._process is None:
            command = _COMMAND.format(path=sys.path, module=__name__)
            self._process = subprocess.Popen(
                [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            _write(self._process.stdin, pickle.dumps(self._experiment))
        return self._process

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what could not be written to a worker that died
                    pipe.close()  # type: ignore[union-attr]


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _write(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def _read(pipe: IO[bytes] | None) -> bytes | None:
    """A message; None when the other side has ended."""
    assert pipe is not None
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = pipe.read(length)
    return body if len(body) == length else None


def work() -> None:
    """In a worker: do runs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a run prints must not come between the answers
    questions = sys.stdin.buffer
    first = _read(questions)
    if first is None:
        return
    experiment: Experiment = pickle.loads(first)  # from the process that started us
    while (message := _read(questions)) is not None:
        task: Task = pickle.loads(message)
        try:
            _write(answers, msgspec.msgpack.encode(perform(experiment, task)))
        except BrokenPipeError:
            os._exit(0)  # to close `answers` would write to the pipe again
