#!/usr/bin/env node
// job_test.js [FILE]: a test of a job, without a server: PGlite is PostgreSQL inside Node (npm install @electric-sql/pglite).
// The test chooses the ticks, so it needs no clock and no sleep. FILE is the portable edition.
'use strict';
const assert = require('assert');
const fs = require('fs');
const { PGlite } = require('@electric-sql/pglite');

const one = async (db, statement, values) => Object.values((await db.query(statement, values)).rows[0])[0];

function acquire(db, tick) {
    return one(db, "SELECT shedlock_acquire_token('interest', '10 min', tick => $1, retry => true)", [tick]);
}

function fail(db, token) {
    return one(db, "SELECT shedlock_release_token('interest', $1, done => false)", [token]);
}

// The job. In production db is a Client of pg, and the tick is SELECT shedlock_tick('30 2 * * 1-5', 'Europe/Berlin').
async function pay(db, tick) {
    const token = await acquire(db, tick);
    if (token === null) return false;
    try {
        await db.query('BEGIN');
        await db.query('UPDATE account SET balance = balance + 1');
        await db.query("SELECT shedlock_complete_token('interest', $1)", [token]);
        await db.query('COMMIT');
    } catch (error) {
        await db.query('ROLLBACK').then(() => fail(db, token)).catch(() => {}); // on a broken connection
        throw error;
    }
    return true;
}

async function test(db) {
    const [monday, tuesday] = ['2026-01-05', '2026-01-06'].map((day) => new Date(day));
    assert(await pay(db, monday));
    assert(!await pay(db, monday)); // skipped: it is done

    const other = await acquire(db, tuesday); // as another host would
    assert(!await pay(db, tuesday)); // skipped: another host runs it
    await fail(db, other);
    assert(await pay(db, tuesday)); // the tick of a failed run is due again

    assert.strictEqual(await one(db, 'SELECT balance FROM account'), 2);
}

async function main() {
    const db = new PGlite();
    await db.exec(fs.readFileSync(process.argv[2] || '/usr/share/shedlock/portable/shedlock.sql', 'utf8'));
    await db.exec('CREATE TABLE account AS SELECT 0 AS balance');
    await test(db);
    console.log('passed');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
