package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// took runs a call that must end within the limit.
func took(t *testing.T, what string, limit time.Duration, call func() error) error {
	t.Helper()
	began := time.Now()
	err := call()
	check(t, time.Since(began) < limit+400*time.Millisecond, what, "took", time.Since(began), err)
	return err
}

// A release took the rest of the lease, and asking once 10 s.
func TestTheCallersOwnLimitWins(t *testing.T) {
	for _, silent := range []bool{false, true} {
		ctx, s := within(t, 60*time.Second), startServer(t)
		p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
		client := must[*Client](t)(Connect(ctx, "redis://"+p.address(), Options{}))
		lock := client.Lock("a")
		var all []*Held
		for number := range 4 {
			all = append(all, must[*Held](t)(client.Lock(fmt.Sprint("held-", number)).Acquire(ctx)))
		}
		p.set(func() { p.refusing, p.silent = !silent, silent })
		if !silent {
			p.cut()
		}
		unreachable := func(err error, also error) {
			t.Helper()
			wantError(t, err, ErrUnreachable, also)
			check(t, strings.Contains(err.Error(), p.address()), err)
		}
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		once := func(ctx context.Context) func() error {
			return func() error { _, err := lock.TryAcquire(ctx); return err }
		}
		info := func() error { _, err := lock.Info(short()); return err }
		release := func(held *Held, ctx context.Context) func() error { return func() error { return held.Release(ctx) } }
		unreachable(took(t, "Release", 300*time.Millisecond, release(all[0], short())), ErrOutcomeUnknown)
		unreachable(took(t, "TryAcquire", 300*time.Millisecond, once(short())), context.DeadlineExceeded)
		unreachable(took(t, "Info", 300*time.Millisecond, info), context.DeadlineExceeded)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		wantError(t, took(t, "TryAcquire", 0, once(cancelled)), context.Canceled)
		wantError(t, took(t, "Release", 0, release(all[1], cancelled)), ErrOutcomeUnknown)
		work := func(context.Context, *Held) error { return nil }
		unreachable(took(t, "Run", 300*time.Millisecond, func() error { return lock.Run(short(), work) }), ErrTimeout)
		// The releases go on in the background, and the held locks are renewed.
		p.set(func() { p.refusing, p.silent = false, false })
		p.cut()
		eventually(t, "released", func() bool { return !s.exists("held-0") && !s.exists("held-1") })
		check(t, all[2].Release(ctx) == nil, "released")
		p.set(func() { p.refusing = true })
		p.cut()
		go func() {
			<-all[3].Lost()
			_ = all[3].Release(ctx)
		}()
		wantError(t, took(t, "Close", 2*time.Second, client.Close), ErrUnflushed)
	}
}

func TestAShortLeaseHasTimeToConnect(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	client := must[*Client](t)(Connect(ctx, "redis://"+p.address(), Options{Lease: 300 * time.Millisecond}))
	defer closeNow(client)
	p.set(func() { p.refusing = true })
	p.cut()
	time.AfterFunc(700*time.Millisecond, func() { p.set(func() { p.refusing = false }) })
	held := must[*Held](t)(client.Lock("a").TryAcquire(ctx))
	check(t, held.Release(ctx) == nil, "released")
}

func TestWhatALossSays(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	held := must[*Held](t)(client.Lock("a", Lease(200*time.Millisecond), NoRenewal()).Acquire(ctx))
	<-held.Lost()
	_, err := held.Check()
	check(t, errors.Is(err, ErrLost) && !strings.Contains(err.Error(), "unreachable"), err)
	_ = held.Release(ctx)
	held = must[*Held](t)(client.Lock("b").Acquire(ctx))
	for range 2 {
		check(t, held.Release(ctx) == nil, "released")
	}
	_, err = held.Check()
	check(t, errors.Is(err, ErrLost) && !strings.Contains(err.Error(), "stop the work"), err)
}
