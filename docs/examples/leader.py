#!/usr/bin/env python3
"""leader.py [NAME [SECONDS]]: of all copies on all hosts, only one works at a time.

Needs psycopg 3; the PG* variables name the database.

SECONDS is at_most, the lease. The work is done in a table: CREATE TABLE worked (n bigint, token bigint, leader text)
docs/other-languages.md explains why it is done this way.
"""
import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta

import psycopg

NAME = sys.argv[1] if len(sys.argv) > 1 else 'leader'
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
AT_MOST = timedelta(seconds=SECONDS)
TRUSTED = SECONDS * 0.9  # our clock may run slower than the server's
HOLDER = f'{socket.gethostname()}:{os.getpid()}'

stop = threading.Event()
locks = None  # a connection for the lock alone, outside the application's pool


def connect():
    # prepare_threshold: not every pooler supports prepared statements. The last four settings detect a dead network.
    return psycopg.connect('', autocommit=True, prepare_threshold=None, connect_timeout=3, keepalives_idle=3,
                           keepalives_interval=3, tcp_user_timeout=int(SECONDS * 1000 / 3))


def ask(statement, *parameters):
    global locks
    if locks is None or locks.closed:
        locks = connect()
    return locks.execute(statement, parameters).fetchone()[0]


class Term:
    """A term is the time from an acquire to its release. A separate thread extends the lease."""

    def __init__(self, token, sent):
        self.token = token
        self.until = sent + TRUSTED
        self.over = threading.Event()
        self.keeper = threading.Thread(target=self.keep, daemon=True)  # ends with the program
        self.keeper.start()

    def trusted(self):
        return time.monotonic() < self.until

    def keep(self):
        pause = SECONDS / 3
        while not self.over.wait(pause) and self.trusted():
            sent = time.monotonic()
            try:
                ours = ask('SELECT shedlock_extend_token(%s, %s, %s)', NAME, self.token, AT_MOST)
                self.until = sent + TRUSTED if ours else 0  # not ours: lost, or just completed
                pause = SECONDS / 3
            except psycopg.Error as error:  # there is time for a few more attempts
                print(HOLDER, 'cannot extend:', error, flush=True)
                pause = SECONDS / 10

    def end(self, completed):
        self.over.set()
        self.keeper.join()
        if completed:
            return 'completed'
        # Released as failed. If only the reply to the last COMMIT was lost, the lock is completed, and this changes nothing.
        released = ask('SELECT shedlock_release_token(%s, %s, done => false)', NAME, self.token)
        return 'released' if released else 'no longer had the lock'


def acquire():
    sent = time.monotonic()  # taken before the call: however long the reply takes, the lease ends later than we assume
    token = ask('SELECT shedlock_acquire_token(%s, %s, holder => %s)', NAME, AT_MOST, HOLDER)
    return None if token is None else Term(token, sent)


def work(application, token):
    """One transaction. Returns true if it was the last one of the term, whose commit has released the lock."""
    with application.transaction():
        n = application.execute('SELECT coalesce(max(n), 0) + 1 FROM worked').fetchone()[0]
        time.sleep(0.1)  # the actual work
        application.execute('INSERT INTO worked VALUES (%s, %s, %s)', (n, token, HOLDER))
        last = stop.is_set()
        end = 'SELECT shedlock_complete_token(%s, %s)' if last else 'SELECT shedlock_guard_token(%s, %s)'
        application.execute(end, (NAME, token))
    return last


def lead(application, term):
    print(HOLDER, 'leads, token', term.token, flush=True)
    completed = False
    try:
        while term.trusted() and not completed:
            completed = work(application, term.token)
    except psycopg.Error as error:
        if error.sqlstate != 'SL001':  # the work has failed: let the supervisor decide what to do
            raise
        print(HOLDER, 'SL001:', error, flush=True)
    finally:
        print(HOLDER, term.end(completed), flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    with connect() as application:  # a real application would use its pool
        while not stop.is_set():
            if term := acquire():
                lead(application, term)
            else:
                stop.wait(SECONDS / 10)


main()
