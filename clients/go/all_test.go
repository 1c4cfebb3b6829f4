package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSeveralLocksAsOne(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	client, other := connectTo(t, s.url(), Options{Lease: 1800 * time.Millisecond}), connectTo(t, s.url(), Options{})
	names := []string{"c", "a", "b", "a"}
	all := must[*AllHeld](t)(client.LockAll(names, Fenced()).TryAcquire(ctx))
	check(t, len(all.Locks()) == 3 && all.Locks()[0].Name() == "a" && all.Locks()[2].Token() > 0, all.Locks())
	time.Sleep(2200 * time.Millisecond)
	left, err := all.Check()
	check(t, err == nil && left > 100*time.Millisecond && left < 1800*time.Millisecond, left, err)
	began := time.Now()
	_, err = other.LockAll(names, Wait(300*time.Millisecond)).Acquire(ctx)
	check(t, errors.Is(err, ErrTimeout) && time.Since(began) > 299*time.Millisecond && time.Since(began) < time.Second, err)
	check(t, strings.Contains(err.Error(), "a was not acquired within 3"), "the wait of all together", err)
	err = all.Release(ctx)
	check(t, err == nil && !s.exists("a") && !s.exists("b") && !s.exists("c"), "released", err)
	_, err = all.Check()
	check(t, errors.Is(err, ErrLost) && all.Release(ctx) == nil, err)

	// Those before the one that is held stay, those after it do not.
	held := must[*Held](t)(other.Lock("b").Acquire(ctx))
	waits := make(chan *AllHeld)
	go func() {
		all, err := client.LockAll(names).Acquire(ctx)
		check(t, err == nil, err)
		waits <- all
	}()
	eventually(t, "it waits", func() bool { return s.waiters(t, "b") == 1 })
	check(t, s.exists("a") && !s.exists("c"), "in order")
	s.do(t, "DEL", "a") // it is lost during the wait, and acquired again
	time.Sleep(time.Second)
	check(t, held.Release(ctx) == nil, "released")
	all = <-waits
	work := all.Context(ctx)
	_, err = all.Check()
	check(t, err == nil && s.exists("a") && s.exists("c"), err)
	s.do(t, "DEL", "c")
	<-all.Lost()
	<-work.Done()
	var lost *Error
	check(t, errors.As(context.Cause(work), &lost) && lost.Why == WhyTaken && lost.Lock == "c", lost)
	wantError(t, all.Release(ctx), ErrLost)
	check(t, !s.exists("a") && !s.exists("b"), "the others are released")

	err = client.LockAll(names).Run(ctx, func(ctx context.Context, held *AllHeld) error { return ctx.Err() })
	check(t, err == nil && !s.exists("a"), err)
	for _, bad := range [][]string{nil, {"a", ""}} {
		_, err = client.LockAll(bad).Acquire(ctx)
		wantError(t, err, ErrInvalid)
		_, err = client.LockAll(bad).TryAcquire(ctx)
		wantError(t, err, ErrInvalid)
	}
	eventually(t, "nothing is left", func() bool { return !s.exists("a") })
	named := must[*Held](t)(client.Lock("b", Owner("me")).Acquire(ctx))
	both := must[*AllHeld](t)(client.LockAll(names, Owner("me")).Acquire(ctx))
	check(t, s.HGet(ctx, "b", "me").Val() == "2", "re-entered")
	check(t, both.Release(ctx) == nil && s.exists("b") && named.Release(ctx) == nil && !s.exists("b"), "released")
}

// Locks that nobody got were held for AtLeast, and the wait for the answers to their release exceeded the limit.
func TestWhatLockAllGivesBack(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	client, other := connectTo(t, "redis://"+p.address(), Options{}), connectTo(t, s.url(), Options{})
	held := must[*Held](t)(other.Lock("b").Acquire(ctx))
	all := client.LockAll([]string{"a", "b", "c"}, AtLeast(time.Hour), Wait(300*time.Millisecond))
	free := func() bool { return !s.exists("a") && !s.exists("c") }
	_, err := all.TryAcquire(ctx)
	wantError(t, err, ErrDenied)
	eventually(t, "free after TryAcquire", free)
	_, err = all.Acquire(ctx)
	wantError(t, err, ErrTimeout)
	eventually(t, "free after Acquire", free)
	for _, acquire := range []func(context.Context) (*AllHeld, error){all.TryAcquire, all.Acquire} {
		// No answer comes to the first release, nor to anything after it.
		p.set(func() {
			p.hear = func(request string) { p.silent = p.silent || strings.Contains(request, "RLOCK.RELEASE") }
		})
		began := time.Now()
		_, err = acquire(ctx)
		check(t, err != nil && time.Since(began) < 1200*time.Millisecond, time.Since(began), err)
		p.set(func() { p.silent, p.hear = false, nil })
		p.cut()
		eventually(t, "free", free)
	}
	me := must[*Held](t)(client.Lock("a", Owner("me")).Acquire(ctx))
	_, err = client.LockAll([]string{"a", "b"}, Owner("me"), Wait(100*time.Millisecond)).Acquire(ctx)
	wantError(t, err, ErrTimeout)
	eventually(t, "one hold", func() bool { return s.HGet(ctx, "a", "me").Val() == "1" })
	_, err = me.Check()
	check(t, err == nil && me.Release(ctx) == nil && !s.exists("a"), err)

	// The caller had this one, and not by LockAll.
	me = must[*Held](t)(client.Lock("a", Owner("me"), AtLeast(time.Hour)).Acquire(ctx))
	waits := make(chan error)
	go func() {
		_, err := client.LockAll([]string{"a", "b"}, Owner("me"), Wait(time.Second)).Acquire(ctx)
		waits <- err
	}()
	eventually(t, "it waits", func() bool { return s.waiters(t, "b") == 1 })
	check(t, me.Release(ctx) == nil, "released")
	wantError(t, <-waits, ErrTimeout)
	check(t, held.Release(ctx) == nil && client.Close() == nil && s.exists("a"), "it is kept")
}
