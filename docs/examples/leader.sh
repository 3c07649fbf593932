#!/usr/bin/env bash
# leader.sh [NAME [SECONDS]]: of all copies on all hosts, only one works at a time. Needs psql; the PG* variables name the database.
# SECONDS is at_most, the lease, in whole seconds. The work is done in a table:
# CREATE TABLE worked (n bigint, token bigint, leader text)
# docs/other-languages.md explains why it is done this way. Under systemd: KillMode=mixed, so that SIGTERM does not end a step. For a single command, use "shedlock run leader --at-most 10s --wait 1d -- COMMAND".
set -u

name=${1:-leader}
seconds=${2:-10}
printf -v third '%d.%03d' $((seconds / 3)) $((seconds * 1000 / 3 % 1000))
printf -v tenth '%d.%d' $((seconds / 10)) $((seconds % 10))
trusted_for=$((seconds * 90)) # nine tenths of at_most, in hundredths of a second: our clock may run slower than the server's
holder=$HOSTNAME:$$
token=
stopping=no
last=no
trap 'stopping=yes' TERM INT
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT

sql() { # [PREFIX...]: runs the statements on stdin in psql; PREFIX, such as timeout, runs psql
    "$@" psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
        -v name="$name" -v at_most="$seconds s" -v token="$token" -v holder="$holder" -v last="$last"
}
give_up() { echo "leader.sh: PostgreSQL did not answer within $third s, a third of the lease, or refused" >&2; exit 1; }
ask() { sql timeout --foreground "$third" <<<"$1"; } # on its own connection, outside any pool

# Hundredths of a second, by a monotonic clock, which does not change when the time is set.
clock() { read -r now _ </proc/uptime && now=${now/./}; }

# The time until which the lease is trusted. It is in a file because keep is a separate process. The file is moved into
# place, so that it is never read when it is only half written.
trust() { echo "$1" >"$folder/new" && mv "$folder/new" "$folder/until"; }
trusted() { clock && [ "$now" -lt "$(<"$folder/until")" ]; }

# Runs alongside the work until lead kills it, or the lease is no longer trusted. $$ is the leader: once it is dead, its lease must not be extended.
keep() {
    local sent pause=$third
    while sleep "$pause" && kill -0 $$ 2>/dev/null && trusted; do
        clock && sent=$now
        pause=$third
        case $(ask "SELECT shedlock_extend_token(:'name', :token, :'at_most')") in
        t) trust $((sent + trusted_for)) ;;
        f) trust 0 ;; # lost, or just completed
        *) pause=$tenth ;; # no answer; there is time for a few more attempts
        esac
    done
}

work() { # one transaction; the commit of the last one of the term releases the lock
    sql timeout --foreground "$seconds" <<'SQL' >/dev/null
BEGIN;
SELECT coalesce(max(n), 0) + 1 AS n FROM worked \gset
\set done `sleep 0.1 >&2 && echo true || echo the work has failed # sleep is the actual work`
SELECT :'done'::boolean;
INSERT INTO worked VALUES (:n, :token, :'holder');
\if :last
SELECT shedlock_complete_token(:'name', :token);
\else
SELECT shedlock_guard_token(:'name', :token);
\endif
COMMIT;
SQL
}

lead() {
    local keeper last=no completed=no failed=no released
    echo "$holder leads, token $token"
    keep &
    keeper=$!
    while [ $completed = no ] && trusted; do
        last=$stopping
        work || { failed=yes; break; }
        completed=$last
    done
    kill $keeper 2>/dev/null
    wait $keeper 2>/dev/null
    if [ $completed = yes ]; then
        echo "$holder completed"
        return
    fi
    # Released as failed. If only the reply to the last COMMIT was lost, the lock is completed, and this changes nothing.
    released=$(ask "SELECT shedlock_release_token(:'name', :token, done => false)") || give_up
    if [ "$released" = f ]; then
        echo "$holder no longer had the lock"
    else
        echo "$holder released"
        [ $failed = no ] || exit 1 # the work has failed, and psql has said why: let the supervisor decide what to do
    fi
}

while [ $stopping = no ]; do
    clock && sent=$now # taken before the call: however long the reply takes, the lease ends later than we assume
    token=$(ask "SELECT shedlock_acquire_token(:'name', :'at_most', holder => :'holder')") || give_up
    if [ -n "$token" ]; then
        trust $((sent + trusted_for)) || exit # no room: the lease ends by itself
        lead
    else
        sleep "$tenth"
    fi
done
