/* The protocol of extension/, step by step: one lock, two of our sessions, with or without runs, one Java client, a
 * clock and faults. A step here is one step there: it is done under the page's lock, or no other session can see it
 * half done. README.md says what is modelled and what is not. -DBREAK_... makes the broken variants, and ./check runs
 * them all.
 */
#ifndef HORIZON
#define HORIZON 4 /* the clock's last reading */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* max_rounds of acquisition.cpp, where it is 10 */
#endif
#ifndef AT_MOST
#define AT_MOST 2
#endif

#ifdef LEAN /* the second session only acquires and releases */
#define IS_COMPLETE(me) (me == 1 && !IS_RUN(me))
#else
#define IS_COMPLETE(me) !IS_RUN(me)
#endif

#define NOBODY 0
#define JAVA 3 /* 1 and 2 are our sessions */
#define LATE 4 /* another connection of the client of session 1 */
#define CLIENTS 5

/* This many of our sessions only do runs, with ticks and retry. A run is a shedlock_run or, with BY_TOKEN, a client
 * that acquires a token, works and completes; its lease does not end with a session, and it may give up on a commit
 * (late). Any other session acquires without a tick, and releases as done or as not done. */
#ifndef RUNS
#define RUNS 0
#endif
#define IS_RUN(who) (who && who <= RUNS)

byte killed; /* one bit per client: its connection is gone, its transaction aborted; all wait until it has noticed */
#if defined(SINGLE) && defined(NO_JAVA) /* SINGLE: only one of our sessions */
#define EVERYBODY (1 << 1)
#elif defined(SINGLE)
#define EVERYBODY (1 << 1 | 1 << JAVA)
#elif defined(NO_JAVA)
#define EVERYBODY (1 << 1 | 1 << 2)
#else
#define EVERYBODY (1 << 1 | 1 << 2 | 1 << JAVA)
#endif
#define IS_KILLED(who) (killed & (1 << who))

/* I2 is the absence of deadlock: while an acquire is under way, all other clients may stop. */
#ifdef ALONE
byte alone = NOBODY;
#define MAY_STEP(who) (!killed && (alone == NOBODY || alone == who))
#else
#define MAY_STEP(who) (!killed)
#endif

byte now = 1;

/* The row's committed version, and the newer version by `writer`, whose transaction is in progress. keep is
 * lock_at_least_until, by is locked_by; with runs, last and done are last_tick and last_done_tick. 0: NULL. The column
 * run_tick is RUN_TICK below. */
#define DONE 0       /* NULL */
#define NOT_DONE 255 /* -infinity */
#define IS_UNRELEASED(its_keep) (its_keep != DONE && its_keep != NOT_DONE)
bool there, new_there;
byte until, new_until;
byte at, new_at;
byte keep, new_keep;
byte by, new_by;
byte last, new_last;
byte done, new_done;
byte writer = NOBODY;
bool acquires; /* the new version is an acquisition, */
bool flushes;  /* ... or something else that must survive a crash */

/* While a release is only in memory: the values that a crash would restore. */
bool unflushed;
byte disk_until, disk_keep, disk_done;

bool shared[CLIENTS];  /* share locks on the row, of guarded transactions that are committing */
byte sight[CLIENTS];   /* whether the row that this session saw and is about to change is still the same */
#define SAME 1
#define CHANGED 2

/* What the clients know. */
byte token[CLIENTS];     /* of the latest acquisition that was committed, 0: none */
byte new_token[CLIENTS]; /* of the one in this transaction */
byte guarded[CLIENTS];   /* the token that this transaction guards */

/* Of a run. */
byte tick[CLIENTS];  /* from its acquire to its end */
byte stage[CLIENTS]; /* of its transaction */
#define WORKS 1
#define HAS_FAILED 2 /* the work was rolled back: to be released as not done */
#define COMPLETES 3  /* the commit has begun, and has written or share-locked the row */
#define IS_AT_WORK(who) (stage[who] == WORKS || stage[who] == COMPLETES)

/* For the properties only: no client knows this. A lease lasts as long as its client may rely on it (at_most from the
 * call on), or as long as it was written, whichever is longer. */
byte live_until[CLIENTS];
byte new_live_until[CLIENTS]; /* if this transaction commits */
byte greatest;                /* token of all acquisitions that were committed */
byte latest = NOBODY;         /* the client of the latest of them */
byte effects;                 /* one bit per tick: its work is committed, by anybody */
byte new_effects;             /* ... that are added if this transaction commits */
bool has_effect;              /* the latest acquisition is a run whose work is committed */
byte greatest_tick;           /* of all runs whose acquisition was committed */

/* Work without a tick is an effect for all ticks that the clock had reached when the lock was acquired: the work of
 * Java, and that of a session that is not a run, once it is released as done. */
#define TICKS_UNTIL(instant) (((2 << (instant)) - 1) & (1 << 1 | 1 << 3))

#define IS_LIVE(who) (live_until[who] > now || new_live_until[who] > now)

/* What a dirty snapshot shows. */
#define UNDECIDED(me) (writer != NOBODY && writer != me)
#define LOCKED(me) ((me != 1 && shared[1]) || (me != 2 && shared[2]))
#define SEEN(me, committed, mine) (writer == me -> mine : committed)
#define CAN_WRITE(me) (!UNDECIDED(me) && !LOCKED(me) && sight[me] == SAME)

#define LARGER(a, b) ((a) > (b) -> (a) : (b))

/* I1 and I5: a client that is granted the lock, or extends it, is the only one that relies on it. */
inline promise_exclusion(me)
{
    if
    :: (me != 1 && IS_LIVE(1)) || (me != 2 && IS_LIVE(2)) || (me != JAVA && IS_LIVE(JAVA)) ->
        printf("I1 is broken\n"); assert(false)
    :: else
    fi
}

inline promise_growth(next)
{
    if
    :: next <= greatest -> printf("I6 is broken\n"); assert(false)
    :: else
    fi
}

/* I11, a little stricter: no other client may be about to commit an acquisition either. A run promises this for its
 * work. */
inline promise_fencing(me)
{
    if
    :: (guarded[me] || IS_AT_WORK(me)) && !(writer == me && acquires) && (latest != me || acquires) ->
        printf("I11 is broken\n"); assert(false)
    :: else
    fi
}

inline promise_one_effect(me)
{
    if
    :: effects & (1 << tick[me]) -> printf("one effect is broken\n"); assert(false)
    :: else
    fi
}

/* Whether the committed row says that a tick is due, with retry. A Java run counts as done. */
#define ROW_SAYS_DUE(its_tick) (its_tick > done && its_tick >= last && !(by == JAVA && at >= its_tick))
#define SHOULD_BE_DUE(its_tick) (!(effects >> its_tick) && greatest_tick <= its_tick)

/* The work of a run is committed if and only if the row says so. A tick is due until its effect exists, or that of a
 * later tick, or until a run acquires for a later tick. */
inline promise_history()
{
#if RUNS && !defined(ONLY_EFFECTS)
    if
    :: IS_RUN(by) && (has_effect != (keep == DONE) || (has_effect && done != last)) ->
        printf("done is broken\n"); assert(false)
    :: else
    fi;
    if
    :: ROW_SAYS_DUE(1) != SHOULD_BE_DUE(1) || ROW_SAYS_DUE(3) != SHOULD_BE_DUE(3) ->
        printf("due is broken\n"); assert(false)
    :: else
    fi
#else
    skip
#endif
}

/* The column run_tick. It needs no variable, because the row determines it. An acquisition without a tick writes the
 * clock, or one unit less if that equals the last tick. With runs, tokens are never above the clock (acquire asserts
 * this), so the clock at the acquisition is the token. */
#define RUN_TICK(its_by, its_at, its_last) \
    (IS_RUN(its_by) -> its_last : (its_at == its_last -> its_at - 1 : its_at))
#ifdef SAME_INSTANT /* work without a tick is an effect also for the last tick, if that equals the clock */
#define EFFECTS_OF(its_at, its_last) TICKS_UNTIL(its_at)
#else
#define EFFECTS_OF(its_at, its_last) TICKS_UNTIL(RUN_TICK(NOBODY, its_at, its_last))
#endif

/* Adds a version that is newer than the committed one. */
#define WRITE(who, its_until, its_at, its_keep, its_by, its_last, its_done) \
    new_until = its_until; new_at = its_at; new_keep = its_keep; new_by = its_by; new_last = its_last; \
    new_done = its_done; new_there = true; writer = who

inline spoil_sights()
{
    sight[1] = (sight[1] -> CHANGED : 0);
    sight[2] = (sight[2] -> CHANGED : 0);
    sight[LATE] = (sight[LATE] -> CHANGED : 0)
}

inline forget_new_version()
{
    new_there = false; new_until = 0; new_at = 0; new_keep = 0; new_by = 0; new_last = 0; new_done = 0;
    writer = NOBODY; acquires = false; flushes = false; new_effects = 0
}

/* Removes its new version, and its locks. */
inline abort(me)
{
    if
    :: writer == me -> forget_new_version()
    :: else
    fi;
    shared[me] = false; sight[me] = 0;
    guarded[me] = 0; new_token[me] = 0; new_live_until[me] = 0;
    tick[me] = 0; stage[me] = 0
}

inline remember_what_disk_has(is_kept)
{
    if
    :: is_kept -> unflushed = false; disk_until = 0; disk_keep = 0; disk_done = 0
    :: !is_kept && !unflushed -> unflushed = true; disk_until = until; disk_keep = keep; disk_done = done
    :: else
    fi
}

/* The last transaction of a run is the one that completes; a commit without completing is one inside a procedure. */
#ifdef BREAK_DONE_AFTER
#define ENDS_WORK IS_AT_WORK
#else
#define ENDS_WORK(me) (stage[me] == COMPLETES)
#endif

inline commit(me)
{
    promise_fencing(me);
    if
    :: ENDS_WORK(me) ->
        promise_one_effect(me);
        effects = effects | (1 << tick[me]); has_effect = true; tick[me] = 0;
        printf("%d has an effect\n", me)
    :: else
    fi;
    stage[me] = 0;
    if
    :: writer == me ->
#ifdef SERVER_CRASHES
        remember_what_disk_has(flushes);
#endif
        there = true; until = new_until; at = new_at; keep = new_keep; by = new_by; last = new_last; done = new_done;
        spoil_sights();
        if
        :: acquires ->
            greatest = LARGER(greatest, at); latest = me; has_effect = false;
#if RUNS
            if
            :: me == JAVA -> effects = effects | TICKS_UNTIL(at)
            :: IS_RUN(me) -> greatest_tick = LARGER(greatest_tick, last)
            :: else
            fi
#endif
        :: else
        fi;
        effects = effects | new_effects;
        if
        :: new_token[me] -> token[me] = new_token[me]
        :: else
        fi;
        live_until[me] = new_live_until[me];
        forget_new_version()
    :: else
    fi;
    shared[me] = false;
    guarded[me] = 0; new_token[me] = 0; new_live_until[me] = 0;
    promise_history();
    printf("%d commits\n", me)
}

#define LATEST_TOKEN(me) (new_token[me] -> new_token[me] : token[me])

/* rules.cpp: state_of, as for token functions. The identity of a session function is equivalent: a row with the pid of
 * a session is that session's latest acquisition. */
#define IS_MINE(me) (SEEN(me, at, new_at) == LATEST_TOKEN(me) && SEEN(me, by, new_by) == me)
#ifdef BREAK_RELEASE
#define IS_MINE_TO_RELEASE(me) true
#else
#define IS_MINE_TO_RELEASE IS_MINE
#endif
#define IS_LIVE_LEASE(me, instant) \
    (SEEN(me, there, new_there) && IS_UNRELEASED(SEEN(me, keep, new_keep)) && SEEN(me, until, new_until) > instant)

#if defined(BREAK_LOOK)
#define SEEN_BY_LOOK(me, committed, mine) (writer -> mine : committed)
#else
#define SEEN_BY_LOOK SEEN
#endif

#ifdef BREAK_COUNTER
#define NEW_TOKEN(instant) (seen_there -> seen_at + 1 : 1)
#define JAVA_TOKEN at /* Java does not count */
#else
#define NEW_TOKEN(instant) (seen_there && seen_at >= instant -> seen_at + 1 : instant)
#define JAVA_TOKEN started
#endif

#ifdef BREAK_GUARD
#define SHARE_LOCK false
#else
#define SHARE_LOCK true
#endif

#ifdef BREAK_FLUSH
#define FLUSH false
#else
#define FLUSH true
#endif

#ifdef BREAK_CLOCK
#define CLOCK (started -> started : now) /* of the transaction */
#else
#define CLOCK now
#endif

/* Between an acquire and its release, or the death of its run, the clock advances: real clocks count microseconds. */
#ifdef COARSE
#define HAS_MOVED(since) true
#else
#define HAS_MOVED(since) (now > since)
#endif

/* The lock of a shedlock_run whose session is gone is free, but not before the end of its at_least. A session that
 * reconnects has no token. */
#ifdef BY_TOKEN
#define IS_OF_SESSION(who) false
#else
#define IS_OF_SESSION IS_RUN
#endif
#ifdef WRONGLY_DEAD
#define IS_GONE(who, its_token) true
#define COUNTS_ON(me, its_until) (IS_RUN(me) -> new_keep : its_until) /* a run relies on its at_least alone */
#else
#define IS_GONE(who, its_token) (token[who] != its_token)
#define COUNTS_ON(me, its_until) its_until
#endif
#ifdef BREAK_DEAD_SESSION
#define ENDS_WITH_SESSION(who) (who == 1 || who == 2)
#else
#define ENDS_WITH_SESSION IS_OF_SESSION
#endif
#if defined(BREAK_DEAD_AT_LEAST)
#define IS_LEFT_OVER(its_keep) IS_UNRELEASED(its_keep)
#elif defined(BREAK_DEAD_RELEASED)
#define IS_LEFT_OVER(its_keep) (!IS_UNRELEASED(its_keep) || its_keep <= instant)
#else
#define IS_LEFT_OVER(its_keep) (IS_UNRELEASED(its_keep) && its_keep <= instant)
#endif
#define IS_ABANDONED \
    (ENDS_WITH_SESSION(seen_by) && IS_LEFT_OVER(seen_keep) && HAS_MOVED(seen_at) && IS_GONE(seen_by, seen_at))

#ifdef BREAK_RETRY_AT_LEAST
#define IS_HELD (seen_until > instant && !IS_ABANDONED && seen_keep != NOT_DONE)
#else
#define IS_HELD (seen_until > instant && !IS_ABANDONED)
#endif

/* rules.cpp: availability_of. Ticks are compared with ticks; all runs retry. */
#if defined(BREAK_RETRY_DONE)
#define IS_DUE(me) (tick[me] == seen_last || (tick[me] > seen_last && tick[me] > seen_done))
#elif defined(BREAK_RETRY_LATER)
#define IS_DUE(me) ((tick[me] > seen_last && tick[me] > seen_done) || seen_done < seen_last)
#elif defined(BREAK_EARLIER)
#define IS_DUE(me) (tick[me] > seen_done)
#elif defined(BREAK_LATER_DONE)
#define IS_DUE(me) (tick[me] > seen_last || (tick[me] == seen_last && tick[me] > seen_done))
#elif defined(BREAK_TICK_AND_CLOCK)
#define IS_DUE(me) (tick[me] > seen_at || (tick[me] == seen_last && tick[me] > seen_done))
#else
#define IS_DUE(me) (tick[me] > seen_done && tick[me] >= seen_last)
#endif

/* rules.cpp: history_of, last_done_tick. A Java run counts as done, at the instant of its acquisition. */
#if defined(BREAK_JAVA_IGNORED)
#define WITH_JAVA(stored) stored
#elif defined(BREAK_JAVA_TAKES_BACK)
#define WITH_JAVA(stored) (seen_by == JAVA -> seen_at : stored)
#else
#define WITH_JAVA(stored) (seen_by == JAVA -> LARGER(stored, seen_at) : stored)
#endif

/* rules.cpp: begun, last_tick. An acquisition without a tick leaves it alone. */
#ifdef BREAK_FAILED_USES_UP
#define BEGUN(me) (tick[me] -> tick[me] : LARGER(seen_last, instant))
#else
#define BEGUN(me) (tick[me] -> tick[me] : seen_last)
#endif

/* rules.cpp: done, last_done_tick. */
#ifdef BREAK_DONE_TAKES_BACK
#define WITH_RUN(stored, its_run_tick) its_run_tick
#else
#define WITH_RUN LARGER
#endif

/* acquisition.cpp: look_and_grant, and lock_table::take. This is one option of a do; each atomic is one step. */
inline acquire(me)
{
    atomic {
        MAY_STEP(me) && !tick[me] && !stage[me];
        if
        :: IS_RUN(me) -> tick[me] = 1
        :: IS_RUN(me) -> tick[me] = 3 /* perhaps ahead of the clock */
        :: !IS_RUN(me)
        fi;
#ifdef BREAK_CLOCK
        called = now;
#endif
#ifdef ALONE
        if
        :: alone = me
        :: skip
        fi;
#endif
look_again:
#ifdef BREAK_WAIT
        MAY_STEP(me) && !UNDECIDED(me);
#endif
        if
#if !defined(BREAK_LOOK) && !defined(BREAK_SELECT)
        :: UNDECIDED(me) || LOCKED(me) -> printf("%d is refused: undecided\n", me); goto refused
#endif
        :: else
        fi;
        sight[me] = SAME;
        seen_there = SEEN_BY_LOOK(me, there, new_there);
        seen_until = SEEN_BY_LOOK(me, until, new_until);
        seen_at = SEEN_BY_LOOK(me, at, new_at);
#if RUNS
        seen_by = SEEN(me, by, new_by);
        seen_keep = SEEN(me, keep, new_keep);
        seen_last = SEEN(me, last, new_last);
        seen_done = WITH_JAVA(SEEN(me, done, new_done))
#endif
    };
    atomic { /* availability_of_all: the one reading of the clock */
        MAY_STEP(me);
        instant = CLOCK;
        if
#ifndef BREAK_HELD
        :: seen_there && IS_HELD -> printf("%d is refused: held\n", me); goto refused
#endif
        :: tick[me] && seen_there && !IS_DUE(me) ->
            printf("%d is refused: tick %d has had its turn\n", me, tick[me]); goto refused
        :: else
        fi;
#if RUNS
        seen_last = BEGUN(me);
#endif
        seen_at = NEW_TOKEN(instant);
        assert(!RUNS || seen_at == instant);
        seen_there = false; seen_until = 0; seen_by = 0; seen_keep = 0
    };
    atomic { /* heap_update, or a speculative insertion, which gives up if another has written the row */
#ifdef BREAK_SELECT
        MAY_STEP(me) && !UNDECIDED(me) && !LOCKED(me); /* an UPDATE by name waits */
#else
        MAY_STEP(me);
#endif
        if
#if !defined(BREAK_WRITE) && !defined(BREAK_SELECT)
        :: !CAN_WRITE(me) -> goto next_round
#endif
        :: else
        fi;
        printf("%d acquires at %d: token %d, until %d\n", me, now, seen_at, instant + AT_MOST);
        promise_exclusion(me);
        promise_growth(seen_at);
        if
        :: WRITE(me, instant + AT_MOST, seen_at, instant, me, seen_last, seen_done)
#ifdef AT_LEAST
        :: WRITE(me, instant + AT_MOST, seen_at, instant + AT_LEAST, me, seen_last, seen_done)
#endif
        fi;
        acquires = true;
        flushes = FLUSH;
        new_token[me] = new_at;
        new_live_until[me] = COUNTS_ON(me, LARGER(instant, called) + AT_MOST);
        goto refused; /* or rather, granted */
next_round:
        round++;
        if
        :: round < ROUNDS -> goto look_again
        :: else -> printf("%d is refused: too many attempts\n", me)
        fi;
refused:
        tick[me] = (writer == me -> tick[me] : 0);
#ifdef ALONE
        alone = NOBODY;
#endif
        round = 0; called = 0; instant = 0; sight[me] = 0;
        seen_there = false; seen_until = 0; seen_at = 0; seen_keep = 0; seen_by = 0; seen_last = 0; seen_done = 0
    }
}

/* change.cpp: try_to_change, until it has succeeded or the lock is not ours. It waits while another transaction's
 * change of the row is uncommitted. */
#define LOOK_AT(me, is_mine) \
    sight[me] = SAME; \
    instant = CLOCK; \
    seen_keep = (is_mine && IS_LIVE_LEASE(me, instant) -> SEEN(me, keep, new_keep) : 0)

inline extend(me)
{
    atomic {
        MAY_STEP(me) && IS_COMPLETE(me) && LATEST_TOKEN(me);
extend_again:
        LOOK_AT(me, IS_MINE(me));
        if
        :: !seen_keep -> printf("%d has lost it at %d\n", me, now); goto extended
        :: else
        fi
    };
    atomic {
        MAY_STEP(me) && !UNDECIDED(me) && !LOCKED(me);
        if
        :: sight[me] != SAME -> goto extend_again
        :: else
        fi;
        printf("%d extends at %d: until %d\n", me, now, LARGER(instant + AT_MOST, seen_keep));
        promise_exclusion(me);
        WRITE(me, LARGER(instant + AT_MOST, seen_keep), SEEN(me, at, new_at), seen_keep, SEEN(me, by, new_by),
              SEEN(me, last, new_last), SEEN(me, done, new_done));
        flushes = true;
        new_live_until[me] = new_until;
extended:
        sight[me] = 0; instant = 0; seen_keep = 0
    }
}

#ifdef BREAK_AT_LEAST
#define KEPT(instant, its_keep) instant
#else
#define KEPT LARGER
#endif

/* change.cpp: to_release. A release as done is flushed if the row has a last tick. A completion always has one. */
#ifdef BREAK_DONE_FLUSH
#define FLUSH_DONE false
#else
#define FLUSH_DONE true
#endif
#ifdef BREAK_FLUSH_BY_TICK
#define FLUSH_RELEASE(me, its_last) IS_RUN(me)
#else
#define FLUSH_RELEASE(me, its_last) (its_last != 0)
#endif

/* A run completes in the transaction of its work. If that was rolled back, the run releases as not done. */
#ifdef BREAK_DONE_BEFORE
#define MAY_RELEASE(me) (!IS_RUN(me) || (tick[me] && !IS_AT_WORK(me) && writer != me))
#else
#define MAY_RELEASE(me) (!IS_RUN(me) || (stage[me] == HAS_FAILED && writer != me))
#endif

inline release(me)
{
    atomic {
        MAY_STEP(me) && MAY_RELEASE(me) && LATEST_TOKEN(me) && HAS_MOVED(LATEST_TOKEN(me));
release_again:
        LOOK_AT(me, IS_MINE_TO_RELEASE(me));
        if
        :: !seen_keep ->
            printf("%d has lost it at %d\n", me, now);
            if
            :: IS_RUN(me) -> abort(me)
            :: else
            fi;
            goto released
        :: else
        fi
    };
    atomic {
        MAY_STEP(me) && !UNDECIDED(me) && !LOCKED(me);
        if
        :: sight[me] != SAME -> goto release_again
        :: else
        fi;
        WRITE(me, KEPT(instant, seen_keep), SEEN(me, at, new_at), DONE, SEEN(me, by, new_by), SEEN(me, last, new_last),
              SEEN(me, done, new_done));
        if
        :: !stage[me] ->
#if RUNS
            new_done = WITH_RUN(new_done, RUN_TICK(me, new_at, new_last));
            flushes = flushes || FLUSH_RELEASE(me, new_last);
            new_effects = (IS_RUN(me) -> 0 : new_effects | EFFECTS_OF(new_at, new_last));
            printf("%d has done it\n", me)
#else
            skip
#endif
        :: stage[me] == HAS_FAILED || (RUNS && !IS_RUN(me)) -> new_keep = NOT_DONE; printf("%d has not done it\n", me)
        fi;
        new_live_until[me] = LARGER(instant, seen_keep);
        printf("%d releases at %d: until %d\n", me, now, new_until);
released:
        sight[me] = 0; instant = 0; seen_keep = 0
    }
}

#ifdef BREAK_RUN_GUARD
#define GUARDED_BY_RUN(me) 0
#define END_LOST_RUN commit /* the completion only warns */
#else
#define GUARDED_BY_RUN(me) token[me]
#define END_LOST_RUN abort
#endif

#ifdef BREAK_COMPLETE
#define IS_TAKEN(me) false
#else
#define IS_TAKEN(me) (at != token[me] || by != me)
#endif
#ifdef BREAK_RELEASED
#define IS_RELEASED false
#else
#define IS_RELEASED (!IS_UNRELEASED(keep))
#endif

/* guard.cpp: complete, at the commit of a run's work. The lease may have ended, as long as no client has taken the lock
 * or is about to. */
inline commit_completing(me)
{
    atomic {
        MAY_STEP(me) && stage[me] == WORKS && HAS_MOVED(token[me]);
complete_again:
        sight[me] = SAME;
        instant = CLOCK;
        if
        :: !there || IS_TAKEN(me) || IS_RELEASED || (UNDECIDED(me) && until <= now && acquires) ->
            printf("%d has lost it at %d\n", me, now);
            END_LOST_RUN(me);
            goto completed
        :: else
        fi
    };
    atomic {
        MAY_STEP(me) && !UNDECIDED(me) && !LOCKED(me);
        if
        :: sight[me] != SAME -> goto complete_again
        :: else
        fi;
        stage[me] = COMPLETES;
        if
        :: IS_UNRELEASED(keep) ->
            WRITE(me, KEPT(instant, keep), at, DONE, by, last, WITH_RUN(done, last));
            flushes = FLUSH_DONE;
            new_live_until[me] = LARGER(instant, keep);
            printf("%d completes at %d: until %d\n", me, now, new_until)
        :: else -> shared[me] = true; printf("%d completes at %d what was released\n", me, now)
        fi
    };
    atomic {
        MAY_STEP(me);
        commit(me);
completed:
        sight[me] = 0; instant = 0; started = 0
    }
}

/* guard.cpp: seize_if_ours, before the commit. The row stays locked until the commit is done. */
inline commit_guarded(me)
{
    atomic {
        MAY_STEP(me) && guarded[me];
check_again:
        if
        :: !SEEN(me, there, new_there) || SEEN(me, at, new_at) != guarded[me] || (UNDECIDED(me) && until <= now) ->
            printf("%d fails: lock lost\n", me);
            abort(me);
            goto failed
        :: else
        fi;
        if
        :: UNDECIDED(me) -> MAY_STEP(me) && !UNDECIDED(me); goto check_again
        :: else -> shared[me] = SHARE_LOCK && writer != me
        fi
    };
    atomic {
        MAY_STEP(me);
        commit(me);
failed:
        started = 0
    }
}

proctype session(byte me)
{
    byte called, round, instant, started;
    bool seen_there;
    byte seen_until, seen_at, seen_keep, seen_by, seen_last, seen_done;

end:
    do
    :: {
        do
#ifdef BREAK_CLOCK
        :: atomic { MAY_STEP(me) && !started -> started = now }
#endif
        :: acquire(me)
        :: extend(me)
        :: release(me)
        :: atomic {
            MAY_STEP(me) && IS_COMPLETE(me) && LATEST_TOKEN(me) && !guarded[me] && SEEN(me, there, new_there) &&
                SEEN(me, at, new_at) == LATEST_TOKEN(me);
            guarded[me] = LATEST_TOKEN(me);
            printf("%d guards token %d\n", me, guarded[me])
           }
        :: commit_guarded(me)
        :: commit_completing(me)
        :: atomic { MAY_STEP(me) && !guarded[me] && writer == me -> commit(me); started = 0 }
        :: atomic {
            MAY_STEP(me) && (guarded[me] || writer == me);
            if
            :: stage[me] == WORKS -> abort(me); stage[me] = HAS_FAILED /* this does not interrupt commit_completing */
            :: else -> abort(me)
            fi;
            started = 0;
            printf("%d rolls back\n", me)
           }
        :: atomic { /* run.cpp: after its acquisition was committed, or after a commit inside a procedure */
            MAY_STEP(me) && tick[me] && !stage[me] && writer != me;
            stage[me] = WORKS; guarded[me] = GUARDED_BY_RUN(me);
            printf("%d works for tick %d\n", me, tick[me])
           }
        od
       } unless {
        atomic {
            IS_KILLED(me);
            killed = killed & ~(1 << me);
            called = 0; round = 0; instant = 0; started = 0;
            seen_there = false; seen_until = 0; seen_at = 0; seen_keep = 0; seen_by = 0; seen_last = 0; seen_done = 0
        }
       }
    od
}

#ifdef BY_TOKEN
/* The client of session 1 has waited too long for its commit. It does not know the outcome of the commit, and releases
 * as not done, on another connection. Once it has the answer to that release, it relies on its at_least alone. */
proctype late()
{
    byte its_token, instant;

end:
    do
    :: {
        atomic {
            MAY_STEP(LATE) && IS_AT_WORK(1) && HAS_MOVED(token[1]);
            its_token = token[1];
            printf("the client of 1 gives up at %d\n", now);
late_again:
            sight[LATE] = SAME;
            instant = now;
            if
            :: !(there && at == its_token && by == 1 && IS_UNRELEASED(keep) && until > instant) ->
                printf("there is nothing to release at %d\n", now);
                goto gave_up
            :: else
            fi
        };
        atomic {
            MAY_STEP(LATE) && !UNDECIDED(LATE) && !LOCKED(LATE);
            if
            :: sight[LATE] != SAME -> goto late_again
            :: else
            fi;
            WRITE(LATE, LARGER(instant, keep), at, NOT_DONE, by, last, done);
            printf("it releases at %d: until %d\n", now, new_until)
        };
        atomic {
            MAY_STEP(LATE);
            live_until[1] = new_until;
            commit(LATE);
gave_up:
            sight[LATE] = 0; its_token = 0; instant = 0
        }
       }
    od
}
#endif

/* Each statement of the Java client is a transaction, and CURRENT_TIMESTAMP is its start. An UPDATE checks the version
 * in its snapshot, waits for any other transaction that is writing or locking the row, and checks again if the row has
 * changed. INSERT … ON CONFLICT checks the newest version. */
proctype java()
{
    byte started;
    bool is_insert;

end:
    do
    :: {
        if
        :: atomic { /* lock */
            MAY_STEP(JAVA);
            started = now;
            if
            :: is_insert = true
            :: there && until <= started
            fi
           };
           atomic {
            MAY_STEP(JAVA) && writer == NOBODY && !LOCKED(JAVA);
            if
            :: (is_insert && !there) || (there && until <= started) ->
                printf("Java acquires at %d: locked_at %d, until %d\n", now, JAVA_TOKEN, started + AT_MOST);
                promise_exclusion(JAVA);
#ifndef BREAK_COUNTER
                promise_growth(JAVA_TOKEN);
#endif
                WRITE(JAVA, started + AT_MOST, JAVA_TOKEN, keep, JAVA, last, done);
                acquires = true; flushes = true;
                new_token[JAVA] = new_at;
                new_live_until[JAVA] = new_until
            :: else
            fi;
            started = 0; is_insert = false
           }
        :: atomic { /* unlock: by host name alone */
            MAY_STEP(JAVA) && token[JAVA] && HAS_MOVED(token[JAVA]) && there && by == JAVA;
            started = now
           };
           atomic {
            MAY_STEP(JAVA) && writer == NOBODY && !LOCKED(JAVA);
            if
            :: there && by == JAVA ->
                WRITE(JAVA, started, at, keep, JAVA, last, done);
                flushes = true;
                new_live_until[JAVA] = started;
                printf("Java unlocks at %d: until %d\n", now, new_until)
            :: else
            fi;
            started = 0
           }
        fi;
        atomic { MAY_STEP(JAVA) -> commit(JAVA) }
       } unless {
        atomic { IS_KILLED(JAVA) -> killed = killed & ~(1 << JAVA); started = 0; is_insert = false }
       }
    od
}

proctype clock()
{
end:
    do
    :: d_step {
        MAY_STEP(CLIENTS) && now < HORIZON;
        now++;
        printf("the clock reads %d\n", now);
        /* Leases that have ended are forgotten, to limit the number of states. */
        live_until[1] = (live_until[1] > now -> live_until[1] : 0);
        live_until[2] = (live_until[2] > now -> live_until[2] : 0);
        live_until[JAVA] = (live_until[JAVA] > now -> live_until[JAVA] : 0)
       }
    od
}

/* A client relies on its lease even without the session. A shedlock_run does not, since its work was in the session;
 * its at_least still holds. */
inline lose_session(client)
{
    abort(client);
    if
    :: IS_OF_SESSION(client) && there && by == client && at == token[client] && IS_UNRELEASED(keep) ->
        live_until[client] = (keep > now -> keep : 0)
    :: else
    fi;
    token[client] = 0
}

inline survive(client)
{
    if
    :: IS_RUN(client) -> lose_session(client)
    :: else -> abort(client)
    fi
}

inline crash(client)
{
    lose_session(client);
    killed = killed | (1 << client);
    printf("%d is killed\n", client)
}

proctype nemesis()
{
end:
    do
    /* A client dies, and its session ends. It returns as a new session. */
    :: d_step { MAY_STEP(CLIENTS) -> crash(1) }
#ifndef SINGLE
    :: d_step { MAY_STEP(CLIENTS) -> crash(2) }
#endif
#ifndef NO_JAVA
    :: d_step { MAY_STEP(CLIENTS) -> crash(JAVA) }
#endif
#ifdef SERVER_CRASHES
    /* The server dies, and what was not flushed is lost. Clients survive and know their tokens, but runs have ended. */
    :: d_step {
        MAY_STEP(CLIENTS);
        survive(1); survive(2); survive(JAVA);
        killed = EVERYBODY;
        if
        :: unflushed ->
            until = disk_until; keep = disk_keep; done = disk_done; remember_what_disk_has(true);
#if RUNS && !defined(LOST_COUNTS)
            effects = (last -> effects : TICKS_UNTIL(done)) /* not promised before the first run with a tick */
#endif
        :: else
        fi;
        printf("the server crashes\n")
       }
    :: d_step { MAY_STEP(CLIENTS) && unflushed -> remember_what_disk_has(true); printf("the WAL writer flushes\n") }
#endif
#ifdef DELETES
    /* A row that is free is deleted by hand. */
    :: d_step {
        MAY_STEP(CLIENTS) && there && writer == NOBODY && !LOCKED(NOBODY) && until <= now;
        there = false; until = 0; at = 0; keep = 0; by = 0; last = 0; done = 0;
        spoil_sights();
        remember_what_disk_has(true);
        printf("the row is deleted\n")
       }
#endif
    od
}

init
{
    atomic {
        run session(1);
#ifdef BY_TOKEN
        run late();
#endif
#ifndef SINGLE
        run session(2);
#endif
#ifndef NO_JAVA
        run java();
#endif
        run clock(); run nemesis()
    }
}
