// Compares shedlock_tick with croner and cron-parser. test/schedules/check runs it.
'use strict';
const { execFileSync } = require('node:child_process');
const { Cron } = require('croner');
const { CronExpressionParser } = require('cron-parser');
const { DateTime } = require('luxon');

const minute = 60e3, hour = 60 * minute, day = 24 * hour;
const zones = ['UTC', 'Europe/Berlin', 'Europe/London', 'Europe/Dublin', 'Europe/Moscow', 'Europe/Istanbul', 'America/New_York',
    'America/Los_Angeles', 'America/St_Johns', 'America/Havana', 'America/Santiago', 'America/Sao_Paulo', 'Africa/Casablanca',
    'Africa/Cairo', 'Asia/Kathmandu', 'Asia/Tehran', 'Asia/Tokyo', 'Australia/Lord_Howe', 'Pacific/Apia', 'Pacific/Auckland'];

let state = Number(process.env.SEED ?? 1);
function random(n) { // 0 to n - 1 (mulberry32)
    state = state + 0x6D2B79F5 | 0;
    let t = Math.imul(state ^ state >>> 15, 1 | state);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return Math.floor(((t ^ t >>> 14) >>> 0) / 2 ** 32 * n);
}
const between = (low, high) => low + random(high - low + 1);
const one = choices => choices[random(choices.length)];

function field(low, high, show = String) {
    const range = (end = high) => {
        const first = between(low, end - 1);
        return `${show(first)}-${show(between(first + 1, end))}`;
    };
    return one([() => '*', () => '*', () => show(between(low, high)), () => show(between(low, high)), () => range(),
        () => `*/${between(1, Math.ceil(high / 2))}`, () => `${range()}/${between(1, 7)}`,
        // cron-parser refuses a value that is there twice
        () => [...new Set(Array.from({ length: between(2, 4) }, () => between(low, high)))].map(show).join(),
        () => `${range(high - 1)},${show(high)}`])();
}
function expression() {
    const months = ['', 'jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
    const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
    // Many times are at night, when clocks are changed.
    const time = one([() => `${field(0, 59)} ${field(0, 23)}`, () => `${field(0, 59)} ${field(0, 3)}`,
        () => `${between(0, 59)} ${between(0, 3)}`])();
    let days = one([() => field(1, 31), () => '*', () => 'L', () => `${between(1, 28)},L`])();
    let week = one([() => field(0, 6, v => one([String(v), weekdays[v]])), () => '*', () => String(between(0, 7)),
        () => `${weekdays[between(0, 6)]}#${between(1, 5)}`])();
    // The other programs know only a bare * as no restriction. sql/cron.sql has the rest.
    if (days.startsWith('*/') || week.startsWith('*/'))
        [days, week] = one([[days, '*'], ['*', week]]);
    return `${time} ${days} ${field(1, 12, v => one([String(v), months[v]]))} ${week}`;
}

const offset = (zone, at) => DateTime.fromMillis(at, { zone }).offset * minute;
// Half of the instants are near a change of the clock.
function instant(changes) {
    if (changes.length === 0 || random(2) === 0)
        return Date.UTC(1970, 0, 3) + random(68 * 365 * day / minute) * minute;
    return one(changes) + random(60 * hour) - 12 * hour;
}
// Whether the clock was changed so shortly before `at` that it skipped or repeats what it shows now.
function follows_a_change(zone, at) {
    const moved = Math.abs(offset(zone, at) - offset(zone, at - 25 * hour));
    return moved !== 0 && offset(zone, at) !== offset(zone, at - moved);
}

const cases = [];
const expressions = Array.from({ length: 1000 }, expression);
for (const zone of zones) {
    const changes = [];
    for (let at = Date.UTC(1970, 0, 3); at < Date.UTC(2037, 11, 30); at += day)
        if (offset(zone, at) !== offset(zone, at + day))
            changes.push(at);
    for (const schedule of expressions)
        for (let i = 0; i < 2; i++)
            cases.push({ schedule, zone, at: instant(changes) });
}

const input = cases.map(c => `${c.schedule}\t${c.zone}\t${new Date(c.at).toISOString()}`).join('\n');
const ticks = execFileSync('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1'], { maxBuffer: 1e9, encoding: 'utf8', input: `
CREATE TEMP TABLE asked (schedule text, zone text, at timestamptz, n serial);
COPY asked (schedule, zone, at) FROM STDIN;\n${input}\n\\.
CREATE FUNCTION pg_temp.tick(schedule text, zone text, at timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    RETURN shedlock_tick(schedule, zone, at);
EXCEPTION WHEN invalid_parameter_value THEN
    IF SQLERRM !~ 'never comes' THEN
        RAISE;
    END IF;
    RETURN NULL;
END $$;
SELECT extract(epoch FROM pg_temp.tick(schedule, zone, at)) * 1000 FROM asked ORDER BY n;` }).split('\n');

const programs = {
    croner: (schedule, zone) => {
        const cron = new Cron(schedule, { timezone: zone, paused: true });
        return after => cron.nextRun(new Date(after))?.getTime() ?? Infinity;
    },
    'cron-parser': (schedule, zone) => after => {
        try {
            return CronExpressionParser.parse(schedule, { tz: zone, currentDate: new Date(after) }).next().getTime();
        } catch (error) {
            if (/does not match|loop limit|Invalid explicit day of month/i.test(error.message))
                return Infinity;
            throw error;
        }
    },
};
const shown = at => Number.isFinite(at) ? new Date(at).toISOString() : 'never';
let failed = false;
for (const [name, open] of Object.entries(programs)) {
    const count = { equal: 0, explained: 0, unexplained: 0 };
    cases.forEach(({ schedule, zone, at }, i) => {
        const ours = ticks[i] === '' ? -Infinity : Number(ticks[i]), latest = at + 30e3;
        const next = open(schedule, zone);
        const [found, later] = ours === -Infinity ? [next(at), next(at)] : [next(ours - 1000), next(ours)];
        if (ours === -Infinity && found === Infinity)
            return count.equal++;
        if (found === ours && later > latest)
            return count.equal++;
        // The later of both ticks is the one that the other side does not have.
        if (ours !== -Infinity && follows_a_change(zone, found === ours ? later : ours))
            return count.explained++;
        if (count.unexplained++ < 10)
            console.log(`${name}: '${schedule}' ${zone} ${new Date(at).toISOString()}: ours ${shown(ours)},`,
                `theirs ${shown(found)} and then ${shown(later)}`);
    });
    failed ||= count.unexplained > 0;
    console.log(`${name}: ${count.equal} equal, ${count.explained} at a change of the clock, ${count.unexplained} others`);
}
process.exit(failed ? 1 : 0);
