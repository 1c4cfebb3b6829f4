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
		for number := range 5 {
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
		info := func(ctx context.Context) func() error { return func() error { _, err := lock.Info(ctx); return err } }
		force := func(ctx context.Context) func() error {
			return func() error { _, err := lock.ForceRelease(ctx); return err }
		}
		release := func(held *Held, ctx context.Context) func() error { return func() error { return held.Release(ctx) } }
		unreachable(took(t, "Release", 300*time.Millisecond, release(all[0], short())), ErrOutcomeUnknown)
		unreachable(took(t, "TryAcquire", 300*time.Millisecond, once(short())), context.DeadlineExceeded)
		unreachable(took(t, "Info", 300*time.Millisecond, info(short())), context.DeadlineExceeded)
		wait := func() error { _, err := client.Lock("a", Wait(time.Second)).Acquire(ctx); return err }
		unreachable(took(t, "Acquire", time.Second, wait), ErrTimeout)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		wantError(t, took(t, "TryAcquire", 0, once(cancelled)), context.Canceled)
		wantError(t, took(t, "Release", 0, release(all[1], cancelled)), ErrOutcomeUnknown)
		work := func(context.Context, *Held) error { return nil }
		unreachable(took(t, "Run", 300*time.Millisecond, func() error { return lock.Run(short(), work) }), ErrTimeout)
		unreachable(took(t, "Release", 2*time.Second, release(all[2], ctx)), ErrOutcomeUnknown)
		unreachable(took(t, "TryAcquire", 2*time.Second, once(ctx)), ErrUnreachable)
		unreachable(took(t, "Info", 2*time.Second, info(ctx)), ErrUnreachable)
		unreachable(took(t, "ForceRelease", 2*time.Second, force(ctx)), ErrUnreachable)
		// The releases go on in the background, and the held locks are renewed.
		p.set(func() { p.refusing, p.silent = false, false })
		p.cut()
		eventually(t, "released", func() bool { return !s.exists("held-0") && !s.exists("held-1") && !s.exists("held-2") })
		check(t, all[3].Release(ctx) == nil, "released")
		p.set(func() { p.refusing = true })
		p.cut()
		go func() {
			<-all[4].Lost()
			_ = all[4].Release(ctx)
		}()
		wantError(t, took(t, "Close", 2*time.Second, client.Close), ErrUnflushed)
	}
}

// A lock that nobody had was reported as not released.
func TestCloseAfterAWaitWithoutAServer(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	client := must[*Client](t)(Connect(ctx, "redis://"+p.address(), Options{}))
	held := must[*Held](t)(client.Lock("b").Acquire(ctx))
	other := must[*Held](t)(connectTo(t, s.url(), Options{}).Lock("a").Acquire(ctx))
	_, err := client.Lock("a", Wait(200*time.Millisecond)).Acquire(ctx)
	check(t, errors.Is(err, ErrTimeout) && !errors.Is(err, ErrUnreachable), err)
	check(t, held.Release(ctx) == nil, "released")
	waits := make(chan error)
	go func() {
		_, err := client.Lock("a", Wait(800*time.Millisecond)).Acquire(ctx)
		waits <- err
	}()
	eventually(t, "it waits", func() bool { return s.waiters(t, "a") == 1 })
	s.stop()
	p.cut()
	wantError(t, <-waits, ErrTimeout, ErrUnreachable)
	check(t, took(t, "Close", 2*time.Second, client.Close) == nil, "nobody had it")
	wantError(t, took(t, "Release", 2*time.Second, func() error { return other.Release(ctx) }), ErrOutcomeUnknown)
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

// Connecting needed PING; each heartbeat and each look was refused, and filled ACL LOG.
func TestTheLeastRights(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	s.do(t, "ACL", "SETUSER", "least", "on", ">pw", "~*", "resetchannels", "&rlock:grants:*", "-@all", "+rlock.acquire", "+rlock.release",
		"+rlock.renew", "+rlock.cancel", "+rlock.info", "+subscribe", "+pubsub|numsub")
	options := Options{Lease: 3 * time.Second, SessionGrace: time.Second}
	client := connectTo(t, fmt.Sprintf("redis://least:pw@127.0.0.1:%d", s.port), options)
	fenced := must[*Held](t)(client.Lock("a", Fenced()).Acquire(ctx))
	permit := must[*Held](t)(client.Semaphore("p", 2).Acquire(ctx))
	reader := must[*Held](t)(client.ReadWriteLock("r").Read().Acquire(ctx))
	fair := must[*Held](t)(client.Lock("f", Fair()).Acquire(ctx))
	waits := s.waitThenRelease(ctx, t, client.Lock("a", Fenced()))
	time.Sleep(2500 * time.Millisecond) // some looks at the holder and heartbeats
	s.do(t, "ACL", "LOG", "RESET")
	time.Sleep(4 * time.Second)
	check(t, len(s.do(t, "ACL", "LOG").([]any)) == 0, s.do(t, "ACL", "LOG"))
	check(t, fenced.Release(ctx) == nil && <-waits == nil, "handed over")
	check(t, permit.Release(ctx) == nil && reader.Release(ctx) == nil && fair.Release(ctx) == nil, "released")
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
