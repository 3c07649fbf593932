-- What the doctor says about jobs that do not get their work done, and about clocks that had jumped forward.
CREATE FUNCTION findings() RETURNS TABLE (severity text, finding text, hint text) LANGUAGE sql AS $$
    SELECT severity, regexp_replace(finding,
        '[0-9]{4}-[0-9 :.+-]+|[0-9/]{10} [0-9:.]+ [A-Z]+|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9:.]+ [0-9]{4} [A-Z]+',
        'T', 'g'), regexp_replace(hint, '@.*', '@HOST')
      FROM shedlock_doctor() WHERE finding ~ 'last (run|tick)' $$;
SET application_name = 'nightly';

-- The last run was done, so there is no finding, not even while the next one is running.
SELECT shedlock_acquire('report', '1 h') AND shedlock_release('report') AS done;
SELECT shedlock_acquire('report', '1 h') AS runs;
SELECT * FROM findings();

-- Two jobs whose last run failed: one had been done before, the other never was.
SELECT shedlock_release('report', done => false) AS failed,
       shedlock_acquire('backup', '1 h') AND shedlock_release('backup', done => false) AS failed_always;
SELECT * FROM findings();
SELECT bool_and(finding LIKE '%since ' || last_done_at) AS says_when
  FROM shedlock_doctor(), shedlock_locks WHERE name = 'report' AND finding LIKE '%"report" failed%';

-- The lease ran out.
SELECT shedlock_acquire('report', '1 h') AS runs;
UPDATE shedlock SET lock_until = locked_at WHERE name = 'report';
SELECT * FROM findings() WHERE finding LIKE '%report%';

-- Done again. A Java run does not record whether it was done.
SELECT shedlock_acquire('report', '1 h') AND shedlock_release('report') AS done;
INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('java', '2026-11-01', '2026-11-01', 'app');
SELECT * FROM findings() WHERE finding !~ 'backup';

-- The clock had jumped forward: ticks until that time would be refused. Following the hint helps.
UPDATE shedlock SET last_tick = last_tick + interval '1 year', last_done_tick = last_done_tick + interval '1 year'
 WHERE name = 'report';
SELECT * FROM findings() WHERE finding ~ 'tick';
SELECT shedlock_acquire('report', '1 h', tick => clock_timestamp()) AS acquired;
SELECT substring(hint, 'UPDATE .* WHERE name = ''report''') AS advice FROM findings() WHERE finding ~ 'tick' \gset
:advice;
SELECT shedlock_acquire('report', '1 h', tick => clock_timestamp()) AS acquired, count(*) AS findings
  FROM findings() WHERE finding ~ 'tick';

RESET application_name;
DROP FUNCTION findings;
DELETE FROM shedlock;
