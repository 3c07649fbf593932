// leader [NAME [SECONDS]]: of all copies on all hosts, only one works at a time. Needs pgx; the PG* variables name the database.
//
//	go mod init leader && go get github.com/jackc/pgx/v5 && go run leader.go
//
// SECONDS is at_most, the lease. The work is done in a table: CREATE TABLE worked (n bigint, token bigint, leader text)
// docs/other-languages.md explains why it is done this way.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	name   = "leader"
	atMost = 10 * time.Second
	holder string
	begun  = time.Now()
	always = context.Background()
	locks  *pgx.Conn // a connection for the lock alone, outside the application's pool
)

// A monotonic clock, which does not change when the time is set.
func clock() time.Duration { return time.Since(begun) }

// Our clock may run slower than the server's.
func trusted() time.Duration { return atMost / 10 * 9 }

func lasting() string { return fmt.Sprintf("%d ms", atMost.Milliseconds()) }

// Called by one goroutine at a time. If no answer comes within a third of at_most, the connection is closed.
func ask(ctx context.Context, result any, statement string, arguments ...any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, atMost/3)
	defer cancel()
	if locks == nil || locks.IsClosed() {
		if locks, err = pgx.Connect(ctx, ""); err != nil {
			return err
		}
	}
	return locks.QueryRow(ctx, statement, arguments...).Scan(result)
}

// A term is the time from an acquire to its release. A separate goroutine extends the lease.
type term struct {
	token int64
	until atomic.Int64 // by our clock
	over  chan struct{}
	kept  chan struct{}
}

func acquire() (*term, error) {
	sent := clock() // taken before the call: however long the reply takes, the lease ends later than we assume
	var token *int64
	err := ask(always, &token, "SELECT shedlock_acquire_token($1, $2::interval, holder => $3)", name, lasting(), holder)
	if err != nil || token == nil {
		return nil, err
	}
	t := &term{token: *token, over: make(chan struct{}), kept: make(chan struct{})}
	t.until.Store(int64(sent + trusted()))
	go t.keep()
	return t, nil
}

func (t *term) trusted() bool { return int64(clock()) < t.until.Load() }

func (t *term) keep() {
	defer close(t.kept)
	for pause := atMost / 3; t.trusted(); {
		select {
		case <-t.over:
			return
		case <-time.After(pause):
		}
		sent := clock()
		var ours bool
		err := ask(always, &ours, "SELECT shedlock_extend_token($1, $2, $3::interval)", name, t.token, lasting())
		switch {
		case err != nil: // there is time for a few more attempts
			log.Println(holder, "cannot extend:", err)
			pause = atMost / 10
		case ours:
			t.until.Store(int64(sent + trusted()))
			pause = atMost / 3
		default:
			t.until.Store(0) // lost, or just completed
		}
	}
}

func (t *term) end(completed bool) (how string, err error) {
	close(t.over)
	<-t.kept
	if completed {
		return "completed", nil
	}
	// Released as failed. If only the reply to the last COMMIT was lost, the lock is completed, and this changes nothing.
	var released bool
	err = ask(always, &released, "SELECT shedlock_release_token($1, $2, done => false)", name, t.token)
	return map[bool]string{true: "released", false: "no longer had the lock"}[released], err
}

// One transaction. Returns true if it was the last one of the term, whose commit has released the lock.
func work(stop context.Context, application *pgxpool.Pool, token int64) (bool, error) {
	ctx, cancel := context.WithTimeout(always, atMost)
	defer cancel()
	tx, err := application.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx) // does nothing after a commit
	var n int64
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(n), 0) + 1 FROM worked").Scan(&n); err != nil {
		return false, err
	}
	time.Sleep(100 * time.Millisecond) // the actual work
	if _, err := tx.Exec(ctx, "INSERT INTO worked VALUES ($1, $2, $3)", n, token, holder); err != nil {
		return false, err
	}
	last := stop.Err() != nil
	end := "SELECT shedlock_guard_token($1, $2)"
	if last {
		end = "SELECT shedlock_complete_token($1, $2)"
	}
	if _, err := tx.Exec(ctx, end, name, token); err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		return false, err
	}
	return last, nil
}

func lead(stop context.Context, application *pgxpool.Pool, t *term) error {
	log.Println(holder, "leads, token", t.token)
	var completed bool
	var failed error
	for failed == nil && t.trusted() && !completed {
		completed, failed = work(stop, application, t.token)
	}
	if failed != nil {
		log.Println(holder, failed)
	}
	how, err := t.end(completed)
	if err != nil {
		return err
	}
	log.Println(holder, how)
	var refusal interface{ SQLState() string }
	if errors.As(failed, &refusal) && refusal.SQLState() == "SL001" {
		return nil
	}
	return failed // the work has failed: let the supervisor decide what to do
}

func main() {
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if len(os.Args) > 2 {
		seconds, err := strconv.ParseFloat(os.Args[2], 64)
		check(err)
		atMost = time.Duration(seconds * float64(time.Second))
	}
	host, _ := os.Hostname()
	holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	log.SetFlags(0)
	log.SetOutput(os.Stdout)

	stop, cancel := signal.NotifyContext(always, syscall.SIGTERM, os.Interrupt)
	defer cancel()
	application, err := pgxpool.New(always, "")
	check(err)
	for stop.Err() == nil {
		t, err := acquire()
		check(err)
		if t != nil {
			check(lead(stop, application, t))
			continue
		}
		select {
		case <-stop.Done():
		case <-time.After(atMost / 10):
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(holder, " ", err)
	}
}
