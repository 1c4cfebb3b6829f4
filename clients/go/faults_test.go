package rlock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestCloseAtAnyMoment(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	for number := range 200 {
		endpoint := must[*endpoint](t)(endpointOfURL(s.url()))
		client := must[*Client](t)(newClient(endpoint, Options{}))
		outcome := make(chan error)
		go func() {
			_, err := client.Lock("a").Acquire(ctx)
			outcome <- err
		}()
		time.Sleep(time.Duration(number) * 20 * time.Microsecond)
		closeNow(client)
		if err := <-outcome; err != nil {
			wantError(t, err, ErrClosed)
		}
		_, err := client.Lock("a").Info(ctx)
		wantError(t, err, ErrClosed)
		s.do(t, "DEL", "a")
	}
	eventually(t, "no goroutine is left", func() bool { return ownGoroutines() == "" })
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	client := connectTo(t, "redis://"+p.address(), Options{})
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	p.set(func() { p.silent = true })
	outcome := make(chan error)
	go func() { outcome <- held.Release(ctx) }()
	time.Sleep(50 * time.Millisecond)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	wantError(t, client.Shutdown(short), ErrUnflushed)
	check(t, time.Since(began) < 2*time.Second, time.Since(began))
	wantError(t, <-outcome, ErrOutcomeUnknown)
	check(t, client.Close() == nil, "closed before")
}

func TestOutages(t *testing.T) {
	ctx, s := within(t, 60*time.Second), startServer(t)
	p := startProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port))
	var mutex sync.Mutex
	var kinds []EventKind
	client := connectTo(t, "redis://"+p.address(), Options{Lease: 3 * time.Second, OnEvent: func(e Event) {
		mutex.Lock()
		defer mutex.Unlock()
		kinds = append(kinds, e.Kind)
	}})
	other := must[*Held](t)(connectTo(t, s.url(), Options{}).Lock("b").Acquire(ctx))
	held := must[*Held](t)(client.Lock("a").Acquire(ctx))
	waits := s.waitThenRelease(ctx, t, client.Lock("b"))
	for range 3 {
		p.cut()
		time.Sleep(300 * time.Millisecond)
	}
	p.set(func() { p.refusing = true })
	p.cut()
	time.Sleep(time.Second)
	p.set(func() { p.refusing = false })
	time.Sleep(1500 * time.Millisecond)
	_, err := held.Check()
	check(t, err == nil, err)
	check(t, other.Release(ctx) == nil && <-waits == nil && held.Release(ctx) == nil, "released")
	mutex.Lock()
	defer mutex.Unlock()
	count := func(kind EventKind) (n int) {
		for _, each := range kinds {
			if each == kind {
				n++
			}
		}
		return n
	}
	check(t, count(Disconnected) == 4 && count(Reconnected) == 4 && count(Renewed) > 0 && count(Lost) == 0, kinds)
}

// The events that a hook had not received yet were kept without a limit.
func TestAHookThatBlocksDelaysNoLossAndFillsNoMemory(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	goOn := make(chan struct{})
	var events []Event
	client := connectTo(t, s.url(), Options{Lease: time.Second, OnEvent: func(e Event) {
		<-goOn
		events = append(events, e)
	}})
	lock := client.Lock("a")
	held := must[*Held](t)(lock.Acquire(ctx))
	for range 1500 {
		_, err := lock.TryAcquire(ctx)
		wantError(t, err, ErrDenied)
	}
	s.do(t, "RLOCK.FORCERELEASE", "a")
	select {
	case <-held.Lost():
	case <-ctx.Done():
		t.Fatal("the loss waited for the hook")
	}
	close(goOn)
	check(t, client.Close() == nil, "closed")
	dropped := 0
	for _, each := range events {
		dropped += each.Dropped
	}
	// One more was on its way to the hook.
	check(t, len(events) <= 1001 && len(events)+dropped >= 1502, len(events), dropped)
	check(t, events[0].Kind == Acquired && events[len(events)-1].Kind == Lost, events[0], events[len(events)-1])
}
