package rlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestHoldsThatOutlastTheirRelease(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client, other := connectTo(t, s.url(), Options{}), connectTo(t, s.url(), Options{})
	held := must[*WriteHeld](t)(client.ReadWriteLock("w").Write(Lease(5 * time.Second)).Acquire(ctx)).Held
	info := must[Info](t)(client.ReadWriteLock("w").Read().Info(ctx))
	check(t, info.Kind == "readwrite" && info.Mode == "write" && info.HolderCount == 1 && info.Holders[0].Owner == held.Owner(), info)
	outer := must[*Held](t)(held.Reenter(ctx))
	_, err := outer.Detach(ctx)
	wantError(t, err, ErrInvalid)
	left, err := held.Detach(ctx)
	check(t, err == nil && left > 4*time.Second && left < 5*time.Second, left, err)
	check(t, held.Release(ctx) == nil && s.exists("w"), "it is not released")
	_, err = held.Detach(ctx)
	wantError(t, err, ErrLost)
	writes := other.ReadWriteLock("w").Write()
	adopted := must[*WriteHeld](t)(writes.Adopt(ctx, held.Owner()))
	_, err = writes.Adopt(ctx, held.Owner())
	wantError(t, err, ErrInvalid)
	reads := must[*Held](t)(adopted.Downgrade(ctx))
	check(t, reads.Release(ctx) == nil && !s.exists("w"), "released")

	writer := must[*WriteHeld](t)(client.ReadWriteLock("w").Write(AtLeast(700*time.Millisecond), MaxHold(time.Minute)).Acquire(ctx))
	reads = must[*Held](t)(writer.Downgrade(ctx))
	reader := must[*Held](t)(other.ReadWriteLock("w").Read().TryAcquire(ctx))
	check(t, reads.Release(ctx) == nil && reader.Release(ctx) == nil && s.exists("w"), "the reader is kept, not the writer")
	eventually(t, "it is free", func() bool { return !s.exists("w") })
}

func TestWhatIsRefusedBeforeItIsSent(t *testing.T) {
	ctx, s := within(t, 30*time.Second), startServer(t)
	client := connectTo(t, s.url(), Options{})
	fenced, _ := Fenced().(Option)
	check(t, fenced == nil, "a semaphore takes no fencing token")
	for _, lock := range []*Lock{
		client.Lock(""), client.Lock(strings.Repeat("x", 1025)), client.Lock("a", Lease(99*time.Millisecond)), client.Semaphore("", 1),
		client.ReadWriteLock("").Read(), client.Lock("a", AtLeast(-1)), client.Lock("a", MaxHold(-1)),
	} {
		_, err := lock.Acquire(ctx)
		wantError(t, err, ErrInvalid)
	}
	_, err := client.Lock("a").Adopt(ctx, "")
	wantError(t, err, ErrInvalid)
	_, err = Connect(ctx, s.url(), Options{Lease: 50 * time.Millisecond})
	check(t, errors.Is(err, ErrInvalid) && strings.Contains(err.Error(), "100ms"), err)
}

func TestURLs(t *testing.T) {
	for url, wanted := range map[string]string{
		"redis://u:p%40w@one/3":                       "[one:6379] u p@w 3",
		"valkey://one:1":                              "[one:1]   0",
		"unix://u:p@/tmp/s.sock?db=3":                 "[/tmp/s.sock] u p 3",
		"redis+cluster://u:p@one,two:7,[::1],[::1]:8": "[one:6379 two:7 [::1]:6379 [::1]:8] u p 0 cluster",
		"rediss+cluster://one/":                       "[one:6379]   0 cluster",
		"redis+sentinel://u:p%40w@one,two:7/main/3":   "[] u p@w 3 [one:26379 two:7] main",
		"valkey+sentinel://one/main":                  "[]   0 [one:26379] main",
	} {
		e, err := endpointOfURL(url)
		check(t, err == nil, url, err)
		got := fmt.Sprint(e.seeds, " ", e.options.Username, " ", e.options.Password, " ", e.options.DB)
		if e.cluster {
			got += " cluster"
		}
		if e.follows() {
			got += fmt.Sprint(" ", e.sentinels, " ", e.service)
		}
		check(t, got == wanted, url, got)
	}
	for _, url := range []string{"", "one:1", "http://one", "redis+sentinel://one", "redis+cluster://one/3", "redis+unix:///s", "redis+sentinel://one/main/x"} {
		_, err := endpointOfURL(url)
		wantError(t, err, ErrInvalid)
	}
	_, err := endpointOfURL("redis+cluster://u:secret@one:x")
	check(t, err != nil && !strings.Contains(err.Error(), "secret"), err)
}
