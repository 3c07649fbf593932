#!/usr/bin/env python3
"""A test of a job, in a database of its own. The test chooses the ticks, so it needs no clock and no sleep.

Needs psycopg 3, a server with the extension (the PG* variables name it), and a role that may create databases.
"""
from datetime import datetime, timezone

import psycopg


def acquire(db, tick):
    return db.execute("SELECT shedlock_acquire_token('interest', '10 min', tick => %s, retry => true)", (tick,)).fetchone()[0]


def pay(db, tick):
    """The job. In production: pay(db, the result of SELECT shedlock_tick('30 2 * * 1-5', 'Europe/Berlin'))"""
    token = acquire(db, tick)
    if token is None:
        return False
    try:
        with db.transaction():
            db.execute('UPDATE account SET balance = balance + 1')
            db.execute("SELECT shedlock_complete_token('interest', %s)", (token,))
    except Exception:
        db.execute("SELECT shedlock_release_token('interest', %s, done => false)", (token,))
        raise
    return True


def test(db):
    monday, tuesday = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (5, 6))
    assert pay(db, monday)
    assert not pay(db, monday)  # skipped: it is done

    other = acquire(db, tuesday)  # as another host would
    assert not pay(db, tuesday)  # skipped: another host runs it
    db.execute("SELECT shedlock_release_token('interest', %s, done => false)", (other,))
    assert pay(db, tuesday)  # the tick of a failed run is due again

    assert db.execute('SELECT balance FROM account').fetchone()[0] == 2


with psycopg.connect('dbname=postgres', autocommit=True) as server:
    server.execute('DROP DATABASE IF EXISTS job_test_py')
    server.execute('CREATE DATABASE job_test_py')
    with psycopg.connect('dbname=job_test_py', autocommit=True) as db:
        db.execute('CREATE EXTENSION shedlock')
        db.execute('CREATE TABLE account AS SELECT 0 AS balance')
        test(db)
    server.execute('DROP DATABASE job_test_py')
print('passed')
