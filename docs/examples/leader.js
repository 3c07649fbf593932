#!/usr/bin/env node
// leader.js [NAME [SECONDS]]: of all copies on all hosts, only one works at a time. Needs pg; the PG* variables name the database.
// SECONDS is at_most, the lease. The work is done in a table: CREATE TABLE worked (n bigint, token bigint, leader text)
// docs/other-languages.md explains why it is done this way.
'use strict';
const os = require('os');
const { setTimeout: sleep } = require('timers/promises');
const { Client, Pool } = require('pg');

const name = process.argv[2] || 'leader';
const atMost = 1000 * (process.argv[3] || 10); // in milliseconds, like all times here
const lasting = `${atMost} ms`;
const trusted = atMost * 0.9; // our clock may run slower than the server's
const holder = `${os.hostname()}:${process.pid}`;
const clock = () => performance.now(); // monotonic: does not change when the time is set

const application = new Pool({ connectionTimeoutMillis: atMost / 3, query_timeout: atMost });
// The next query reports it, also where the connection is in use at the moment.
application.on('error', () => {}).on('connect', (client) => client.on('error', () => {}));
const stop = new AbortController();
let locks; // a connection for the lock alone, outside the application's pool

async function ask(statement, parameters) {
    try {
        if (!locks) {
            locks = new Client({ connectionTimeoutMillis: atMost / 3, query_timeout: atMost / 3 });
            locks.on('error', () => {}); // the next query reports it
            await locks.connect();
        }
        return (await locks.query({ text: statement, values: parameters, rowMode: 'array' })).rows[0][0];
    } catch (error) { // the next call opens another connection
        locks.end().catch(() => {});
        locks = undefined;
        throw error;
    }
}

async function acquire() {
    const sent = clock(); // taken before the call: however long the reply takes, the lease ends later than we assume
    const token = await ask('SELECT shedlock_acquire_token($1, $2::interval, holder => $3)', [name, lasting, holder]);
    return token === null ? null : { token, until: sent + trusted };
}

// Extends the lease. The promise resolves when the term has ended.
async function keep(term) {
    for (let pause = atMost / 3; clock() < term.until;) {
        await sleep(pause, null, { signal: term.over.signal }).catch(() => {});
        if (term.over.signal.aborted) return;
        const sent = clock();
        try {
            const ours = await ask('SELECT shedlock_extend_token($1, $2, $3::interval)', [name, term.token, lasting]);
            term.until = ours ? sent + trusted : 0; // not ours: lost, or just completed
            pause = atMost / 3;
        } catch (error) { // there is time for a few more attempts
            console.log(holder, 'cannot extend:', error.message);
            pause = atMost / 10;
        }
    }
}

// One transaction. Returns true if it was the last one of the term, whose commit has released the lock.
async function work(token) {
    const client = await application.connect();
    try {
        await client.query('BEGIN');
        const n = (await client.query('SELECT coalesce(max(n), 0) + 1 AS n FROM worked')).rows[0].n;
        await sleep(100); // the actual work
        await client.query('INSERT INTO worked VALUES ($1, $2, $3)', [n, token, holder]);
        const last = stop.signal.aborted;
        const end = last ? 'SELECT shedlock_complete_token($1, $2)' : 'SELECT shedlock_guard_token($1, $2)';
        await client.query(end, [name, token]);
        await client.query('COMMIT');
        client.release();
        return last;
    } catch (error) {
        client.release(error); // closes the connection, which rolls the transaction back
        throw error;
    }
}

async function lead(term) {
    console.log(holder, 'leads, token', term.token);
    let completed = false;
    term.over = new AbortController();
    const kept = keep(term);
    try {
        while (clock() < term.until && !completed) completed = await work(term.token);
    } catch (error) {
        if (error.code !== 'SL001') {
            console.error(error.message); // the release may fail as well
            throw error; // the work has failed: let the supervisor decide what to do
        }
        console.log(holder, 'SL001:', error.message);
    } finally {
        term.over.abort();
        await kept;
        console.log(holder, completed ? 'completed' : await release(term));
    }
}

// Released as failed. If only the reply to the last COMMIT was lost, the lock is completed, and this changes nothing.
async function release(term) {
    const released = await ask('SELECT shedlock_release_token($1, $2, done => false)', [name, term.token]);
    return released ? 'released' : 'no longer had the lock';
}

async function main() {
    for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => stop.abort());
    while (!stop.signal.aborted) {
        const term = await acquire();
        if (term) await lead(term);
        else await sleep(atMost / 10, null, { signal: stop.signal }).catch(() => {});
    }
}

main().then(() => process.exit(0), (error) => { console.error(holder, error); process.exit(1); });
