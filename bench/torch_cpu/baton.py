"""baton.py - lets several jobs take turns, a few steps each, so that all feel the same mood of the machine.

Clock.perf_counter() stands in for time.perf_counter() in a job that calls it where a step begins and where it
ends. TB_BATON="IN OUT STEPS" names two pipes: before every STEPS-th step the job says that it is ready on OUT
and waits for its turn on IN. Without TB_BATON it is the plain clock.
"""

import os
import time


class Clock:
    def __init__(self):
        self.steps = 0
        self.inside = False
        where = os.environ.get("TB_BATON")
        if where:
            path_in, path_out, steps = where.split(" ")
            self.pipe_in, self.pipe_out = os.open(path_in, os.O_RDWR), os.open(path_out, os.O_RDWR)
            self.turn = int(steps)
        else:
            self.turn = 0

    def perf_counter(self):
        now = time.perf_counter()
        if not self.inside and self.turn and self.steps % self.turn == 0:
            os.write(self.pipe_out, b".")
            if os.read(self.pipe_in, 1) != b".":
                raise SystemExit("the benchmark ended")
            now = time.perf_counter()
        self.steps += self.inside
        self.inside = not self.inside
        return now

    def over(self):
        """The last step has ended: say so, as the next turn would."""
        if self.turn:
            os.write(self.pipe_out, b".")
