#!/usr/bin/env bash
# leader.sh [NAME [SECONDS]]: of all copies, on any host, one works at a time. psql; database by the PG* variables.
# SECONDS is at_most, the lease, in whole ones. The work is done in a table:
# CREATE TABLE worked (n bigint, token bigint, leader text)
# Why it is done like this: docs/other-languages.md. For a command, "shedlock run leader --wait 1d -- COMMAND" does it.
set -u

name=${1:-leader}
seconds=${2:-10}
printf -v third '%d.%03d' $((seconds / 3)) $((seconds * 1000 / 3 % 1000))
printf -v tenth '%d.%d' $((seconds / 10)) $((seconds % 10))
trusted=$((seconds * 90)) # hundredths of a second; our clock may run slower than the server's
holder=$HOSTNAME:$$
token=
stopping=
trap 'stopping=yes' TERM INT
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

sql() { # [COMMAND...]: what stdin says, by psql under COMMAND
    "$@" psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
        -v name="$name" -v at_most="$seconds s" -v token="$token" -v holder="$holder"
}
ask() { sql timeout --foreground "$third" <<<"$1"; } # on a connection of its own, none of a pool's

# Hundredths of a second, by a clock that nobody sets.
clock() { read -r now _ </proc/uptime && now=${now/./}; }

# Until when: in a file, since keep is a process of its own. A move, so that nobody reads half of it.
trust() { echo "$1" >"$folder/new" && mv "$folder/new" "$folder/until"; }
trusted() { clock && [ "$now" -lt "$(<"$folder/until")" ]; }

# Beside the work, until it is killed. $$ is the leader: if that was killed, nobody may extend its lease.
keep() {
    local sent pause=$third
    while sleep "$pause" && kill -0 $$ 2>/dev/null && trusted; do
        clock && sent=$now
        pause=$third
        case $(ask "SELECT shedlock_extend_token(:'name', :token, :'at_most')") in
        t) trust $((sent + trusted)) ;;
        f) trust 0 ;;
        *) pause=$tenth ;; # no answer; there is time for some more tries
        esac
    done
}

work() {
    sql <<'SQL' >/dev/null
BEGIN;
SELECT coalesce(max(n), 0) + 1 AS n FROM worked \gset
\! sleep 0.1
INSERT INTO worked VALUES (:n, :token, :'holder');
SELECT shedlock_guard_token(:'name', :token);
COMMIT;
SQL
}

lead() {
    local keeper done=true released
    echo "$holder leads, token $token"
    keep &
    keeper=$!
    while [ -z "$stopping" ] && trusted; do
        work || { done=false; break; }
    done
    trusted || done=false
    kill $keeper 2>/dev/null
    wait $keeper 2>/dev/null
    released=$(ask "SELECT shedlock_release_token(:'name', :token, '$done')") || exit 1
    if [ "$released" = f ]; then
        echo "$holder had lost the lock"
    else
        echo "$holder released"
        [ $done = true ] || ! trusted || exit 1 # the work has failed: let whoever started us decide
    fi
}

while [ -z "$stopping" ]; do
    clock && sent=$now # before: however long the reply takes, the lease ends later than we think
    token=$(ask "SELECT shedlock_acquire_token(:'name', :'at_most', holder => :'holder')") || exit 1
    if [ -n "$token" ]; then
        trust $((sent + trusted))
        lead
    else
        sleep "$tenth"
    fi
done
