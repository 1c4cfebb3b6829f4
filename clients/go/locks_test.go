package rlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestOneHoldsAndOthersAreDenied(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client, other := connectTo(t, s.url(), Options{}), connectTo(t, s.url(), Options{Name: "other app/1"})
	held := must[*Held](t)(client.Lock("a", Fenced()).Acquire(ctx))
	left, err := held.Check()
	check(t, err == nil && left > 29*time.Second && left < 30*time.Second, left, err)
	check(t, held.Token() > 0 && held.Name() == "a" && strings.HasPrefix(held.Owner(), client.Identity()+":"), held.Owner())
	check(t, strings.HasPrefix(other.Identity(), "other_app_1@"), other.Identity())
	form := fmt.Sprintf(`^[\w.-]+@[\w.-]+:%d:[0-9a-f]{32}:\d+$`, os.Getpid())
	check(t, regexp.MustCompile(form).MatchString(held.Owner()), held.Owner())
	_, err = other.Lock("a").TryAcquire(ctx)
	wantError(t, err, ErrDenied)
	check(t, err.Error() == "another owner holds the lock a; wait for it, or try again later", err)

	handedOver := make(chan *Held)
	go func() {
		next, err := other.Lock("a", Fenced()).Acquire(ctx)
		check(t, err == nil, err)
		handedOver <- next
	}()
	eventually(t, "it waits", func() bool { return s.waiters(t, "a") == 1 })
	for range 2 {
		check(t, held.Release(ctx) == nil, "released twice, with one outcome")
	}
	_, err = held.Check()
	wantError(t, err, ErrLost)
	next := <-handedOver
	check(t, next.Token() > held.Token(), next.Token())
	check(t, next.Release(ctx) == nil && !s.exists("a"), "free")
	select {
	case <-held.Lost():
		t.Fatal("a released lock is not lost")
	default:
	}
}

func TestTheContextBoundsTheWait(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	lock := client.Lock("a")

	began := time.Now()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := lock.Acquire(short)
	waited := time.Since(began)
	wantError(t, err, ErrTimeout, context.DeadlineExceeded)
	check(t, waited >= 299*time.Millisecond && waited < time.Second, waited)
	_, err = lock.Acquire(short)
	wantError(t, err, ErrTimeout)
	<-short.Done() // its timer may be later than the client's
	_, err = lock.TryAcquire(short)
	wantError(t, err, context.DeadlineExceeded)

	_, err = client.Lock("a", Wait(50*time.Millisecond)).Acquire(ctx)
	wantError(t, err, ErrTimeout)
	check(t, !errors.Is(err, context.DeadlineExceeded), err)

	because := errors.New("because")
	cancelled, stop := context.WithCancelCause(ctx)
	time.AfterFunc(100*time.Millisecond, func() { stop(because) })
	_, err = lock.Acquire(cancelled)
	wantError(t, err, because, context.Canceled)
	eventually(t, "it left the queue", func() bool { return s.waiters(t, "a") == 0 })
	check(t, held.Release(ctx) == nil, "released")

	// The hold outlives the context of its wait.
	bounded, done := context.WithTimeout(ctx, time.Second)
	held = must[*Held](t)(lock.Acquire(bounded))
	done()
	time.Sleep(50 * time.Millisecond)
	_, err = held.Check()
	check(t, err == nil && held.Release(bounded) == nil && !s.exists("a"), "released with a context that was done", err)
}

func TestRun(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{Lease: 600 * time.Millisecond})
	lock := client.Lock("a")
	err := lock.Run(context.WithValue(ctx, t, "value"), func(work context.Context, held *Held) error {
		check(t, s.exists("a") && work.Err() == nil && work.Value(t) == "value", "held")
		return nil
	})
	check(t, err == nil && !s.exists("a"), err)

	failed := errors.New("failed")
	wantError(t, lock.Run(ctx, func(context.Context, *Held) error { return failed }), failed)
	check(t, !s.exists("a"), "released after an error")

	for _, own := range []error{nil, failed} {
		err = lock.Run(ctx, func(work context.Context, held *Held) error {
			s.do(t, "DEL", "a")
			<-work.Done()
			wantError(t, context.Cause(work), ErrLost)
			if own == nil {
				return work.Err()
			}
			return own
		})
		if own == nil {
			own = ErrLost
		}
		wantError(t, err, own)
	}

	func() {
		defer func() { check(t, recover() == "panic", "it goes on") }()
		_ = client.ReadWriteLock("rw").Write().Run(ctx, func(context.Context, *WriteHeld) error { panic("panic") })
	}()
	check(t, !s.exists("rw"), "released after a panic")
	_, err = client.Lock("a").Acquire(ctx)
	check(t, err == nil, err)
	wantError(t, client.Lock("a", Wait(time.Millisecond)).Run(ctx, nil), ErrTimeout)
}

// A re-entry saw that the lock was held, the last guard was released before it was counted, and it acquired the lock for nobody.
func TestReentryAfterTheLastRelease(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	guards := func(number int) { client.do(func() { held.acquisition.guards = number }) }
	guards(0)
	s.do(t, "CONFIG", "RESETSTAT")
	_, err := held.Reenter(ctx)
	wantError(t, err, ErrLost)
	check(t, !strings.Contains(s.Info(ctx, "commandstats").Val(), "rlock.acquire"), "nothing was sent")
	guards(1)
	check(t, held.Release(ctx) == nil && !s.exists("a"), "free")
}

// The last guard is released after the next acquisition has found the hold, and before that adds one.
func TestANamedOwnerAcquiresBesideItsRelease(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	lock := client.Lock("n", Owner("me"))
	for _, acquire := range []func(context.Context) (*Held, error){lock.Acquire, lock.TryAcquire} {
		first := must[*Held](t)(lock.Acquire(ctx))
		// Another change of the number of holds is under way.
		first.acquisition.levels <- struct{}{}
		type outcome struct {
			held *Held
			err  error
		}
		next := make(chan outcome)
		go func() {
			held, err := acquire(ctx)
			next <- outcome{held, err}
		}()
		time.Sleep(50 * time.Millisecond)
		check(t, first.Release(ctx) == nil, "released")
		<-first.acquisition.levels
		got := <-next
		check(t, got.err == nil || errors.Is(got.err, ErrDenied), got.err)
		if got.err == nil {
			check(t, s.HGet(ctx, "n", "me").Val() == "1" && got.held.Release(ctx) == nil, "acquired")
		}
	}
}

// The end of a context is no error of a release that sends nothing that matters.
func TestAnInnerGuardIsReleasedWithoutItsContext(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	outer := must[*Held](t)(connectTo(t, s.url(), Options{}).Lock("a").Acquire(ctx))
	done, cancel := context.WithCancel(ctx)
	cancel()
	outer.acquisition.levels <- struct{}{}
	inner := newHeld(outer.acquisition)
	outer.acquisition.client.do(func() { outer.acquisition.guards++ })
	check(t, inner.Release(done) == nil, "released")
	<-outer.acquisition.levels
	_, err := outer.Check()
	check(t, err == nil && outer.Release(ctx) == nil && !s.exists("a"), err)
}

func TestBadSettings(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	for name, lock := range map[string]*Lock{
		"lease": client.Lock("a", Lease(0)), "long": client.Lock("a", Lease(math.MaxInt64)), "wait": client.Lock("a", Wait(-1)),
		"grace": client.Lock("a", SessionGrace(99*time.Millisecond)), "owner": client.Lock("a", Owner(strings.Repeat("x", 513))),
		"none": client.Semaphore("a", 0), "less": client.Semaphore("a", -1),
	} {
		_, err := lock.Acquire(ctx)
		check(t, errors.Is(err, ErrInvalid) && !strings.Contains(err.Error(), "%!"), name, err)
	}
	for _, url := range []string{"", "localhost", "http://x", "redis://me:secret@host:bad", "redis://me:secret@host/x"} {
		_, err := Connect(ctx, url, Options{})
		check(t, errors.Is(err, ErrInvalid) && !strings.Contains(err.Error(), "secret"), url, err)
	}
	for _, options := range []Options{{Lease: -1}, {Lease: time.Microsecond}, {Wait: -1}, {SessionGrace: 1}, {ResponseTimeout: 1}} {
		_, err := Connect(ctx, s.url(), options)
		wantError(t, err, ErrInvalid)
	}
	_, err := ConnectLike(ctx, nil, Options{})
	wantError(t, err, ErrUnsupported)
	// Any 1 to 1,024 bytes are a name.
	for _, name := range []string{" ", "a b\r\n%7E\x00\xff", "{}", strings.Repeat("long", 256)} {
		held := must[*Held](t)(client.Lock(name, Lease(time.Second)).Acquire(ctx))
		waits := s.waitThenRelease(ctx, t, client.Lock(name))
		check(t, held.Release(ctx) == nil, "released")
		check(t, <-waits == nil, "the next one")
	}
}

func TestManyContend(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	clients := []*Client{connectTo(t, s.url(), Options{}), connectTo(t, s.url(), Options{SessionGrace: 5 * time.Second})}
	var inside atomic.Int32
	var all sync.WaitGroup
	count := 0
	for number := range 60 {
		all.Add(1)
		go func() {
			defer all.Done()
			lock := clients[number%2].Lock("a")
			for turn := range 10 {
				if turn%3 == 2 && number%5 == 0 {
					short, cancel := context.WithTimeout(ctx, time.Duration(number)*time.Millisecond/10)
					if held, err := lock.Acquire(short); err == nil {
						check(t, inside.Add(1) == 1 && inside.Add(-1) == 0 && held.Release(ctx) == nil, "alone")
					}
					cancel()
					continue
				}
				err := lock.Run(ctx, func(context.Context, *Held) error {
					if inside.Add(1) != 1 {
						return errors.New("a second holder")
					}
					count++
					inside.Add(-1)
					return nil
				})
				check(t, err == nil, fmt.Sprint(err))
			}
		}()
	}
	all.Wait()
	check(t, count == 600-12*3, count)
	eventually(t, "free", func() bool { return !s.exists("a") })
}
