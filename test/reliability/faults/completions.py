#!/usr/bin/env python3
"""completions.py CONNECTION JOB FIRST LAST [POINT FILE]: does those of a job's ticks FIRST to LAST that are not done yet.

Tick N is N minutes after the beginning of 2020. Its effect is a row of the table effects. One connection writes the row
and completes the lock in one transaction; another connection acquires, as in an application with a pool. Every second
lease is long and ends with the session that acquired it. The others are short, and may end before the work is done.

At POINT of the tick LAST the program creates FILE and stops itself, so that completions.pl can kill it there or resume
it later. A stop without FILE has another cause, and may be at any point. The program exits with 0 when each tick is
done, by any program. Lost connections and lost locks (SL001) are expected; other errors are not.
"""
import os
import random
import signal
import sys
import time

import psycopg

WHERE, JOB, FIRST, LAST = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
POINT, FILE = sys.argv[5:7] if len(sys.argv) > 5 else (None, None)
TICK = "timestamptz '2020-01-01 00:00+00' + %s * interval '1 minute'"


def at(point, tick):
    global POINT
    if point == POINT and tick == LAST:
        POINT = None  # stops only once
        open(FILE, 'w').close()
        os.kill(os.getpid(), signal.SIGSTOP)


def is_lost(error):
    """Whether the connection is lost: the server shut down, crashed, is starting, or cut it."""
    return error.sqlstate is None or error.sqlstate[:3] == '57P' or error.sqlstate[:2] == '08'


def connect():
    return psycopg.connect(WHERE, autocommit=True)


class Worker:
    def __init__(self):
        self.locks = self.application = None

    def connect(self):
        if self.locks is None or self.locks.closed:
            self.locks = connect()
        if self.application is None or self.application.closed:
            self.application = connect()

    def ask(self, statement, *parameters):
        return self.locks.execute(statement, parameters).fetchone()

    def is_done(self, tick):
        row = self.ask(f'SELECT last_done_tick >= {TICK} FROM shedlock_locks WHERE name = %s', tick, JOB)
        return row is not None and row[0]

    def acquire(self, tick):
        at_most, ends_with_session = ('300 ms', False) if tick % 2 == 0 else ('10 minutes', True)
        return self.ask(f'SELECT shedlock_acquire_token(%s, %s, tick => {TICK}, retry => true, ends_with_session => %s)',
                        JOB, at_most, tick, ends_with_session)[0]

    def work(self, tick, token):
        with self.application.transaction():
            at('begun', tick)
            self.application.execute('INSERT INTO effects VALUES (%s, %s)', (JOB, tick))
            at('worked', tick)
            self.application.execute('SELECT shedlock_complete_token(%s, %s)', (JOB, token))
            at('completed', tick)
            if tick % 5 == 0:
                self.give_up(token)
        at('committed', tick)

    def give_up(self, token):
        """Acts like a client that times out before the reply to its COMMIT, so it does not know the outcome."""
        self.application.pgconn.send_query(b'COMMIT')
        self.application.close()
        self.fail(token)
        raise psycopg.OperationalError('gave up')

    def fail(self, token):
        """Releases as failed, which does not undo a completion."""
        self.ask('SELECT shedlock_release_token(%s, %s, false)', JOB, token)

    def do(self, tick):
        """Returns whether the tick is now known to be done."""
        token = None
        try:
            self.connect()
            if self.is_done(tick):
                return True
            at('ready', tick)
            token = self.acquire(tick)
            if token is None:
                time.sleep(random.uniform(0.001, 0.02))
                return False
            at('acquired', tick)
            self.work(tick, token)
            return True
        except psycopg.Error as error:
            if is_lost(error):
                self.after_loss(token)
            elif error.sqlstate != 'SL001':
                raise
            return False

    def after_loss(self, token):
        time.sleep(random.uniform(0.001, 0.02))
        try:
            if token is not None:
                self.connect()
                self.fail(token)
        except psycopg.Error as error:
            if not is_lost(error):
                raise


def main():
    worker = Worker()
    for tick in range(FIRST, LAST + 1):
        while not worker.do(tick):
            pass


main()
