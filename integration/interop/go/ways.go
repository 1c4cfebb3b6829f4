// docs/clients/from-redsync.md beside redsync, redislock and rueidislock: without arguments it starts itself several times, to count under one lock.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	rlock "rlock.invalid/client"
)

const name = "ways"

var (
	ctx    = context.Background()
	app    *redis.Client
	client *rlock.Client
)

func mutex(name string, expiry time.Duration) *redsync.Mutex {
	delay := redsync.WithRetryDelay(10 * time.Millisecond)
	return redsync.New(goredis.NewPool(app)).NewMutex(name, redsync.WithExpiry(expiry), redsync.WithTries(1000), delay)
}

func obtain(ctx context.Context) (context.Context, context.CancelFunc, error) {
	retry := redislock.LinearBackoff(10 * time.Millisecond)
	held, err := redislock.Obtain(ctx, app, name, 20*time.Second, &redislock.Options{RetryStrategy: retry})
	return ctx, func() { must(held.Release(ctx)) }, err
}

// spread holds the lock of rueidislock, which is two of three keys.
func spread(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return locker().WithContext(ctx, name)
}

var locker = sync.OnceValue(func() rueidislock.Locker {
	address := rueidis.ClientOption{InitAddress: []string{app.Options().Addr}}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: address})
	must(err)
	return locker
})

type work = func(context.Context, *rlock.Held) error

var sides = map[string]func(work) error{
	"redsync": func(work work) error {
		held := mutex(name, 10*time.Second)
		must(held.Lock())
		defer held.Unlock()
		return work(ctx, nil)
	},
	"one": func(work work) error {
		held, err := acquireBesideRedsync(ctx, client.Lock(name))
		must(err)
		defer held.Release(ctx)
		return work(ctx, held)
	},
	"redislock": func(work work) error {
		_, unlock, err := obtain(ctx)
		must(err)
		defer unlock()
		return work(ctx, nil)
	},
	"both": func(work work) error { return withBoth(ctx, obtain, client.Lock("rlock:"+name), work) },
	"rueidislock": func(work work) error {
		ctx, unlock, err := spread(ctx)
		must(err)
		defer unlock()
		return work(ctx, nil)
	},
	"spread": func(work work) error { return withBoth(ctx, spread, client.Lock("rlock:"+name), work) },
	"alone":  func(work work) error { return client.Lock("rlock:"+name).Run(ctx, work) },
}

func contend(side string) {
	holds := 0
	for end := time.Now().Add(2 * time.Second); holds < 5 || time.Now().Before(end); holds++ {
		must(sides[side](func(context.Context, *rlock.Held) error {
			count, err := app.Get(ctx, "count").Int()
			if err != nil && err != redis.Nil {
				return err
			}
			time.Sleep(2 * time.Millisecond)
			return app.Set(ctx, "count", count+1, 0).Err()
		}))
		time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
	}
	fmt.Println(holds)
}

// together runs a program for each side: the counter has missed no hold.
func together(sides ...string) {
	must(app.Del(ctx, "count").Err())
	holds, total := make([]int, len(sides)), 0
	var all sync.WaitGroup
	for number, side := range sides {
		all.Go(func() {
			printed, err := exec.Command(os.Args[0], side).CombinedOutput()
			if _, failed := fmt.Sscan(string(printed), &holds[number]); err != nil || failed != nil {
				log.Fatal(side, err, string(printed))
			}
		})
	}
	all.Wait()
	for _, one := range holds {
		total += one
	}
	count, err := app.Get(ctx, "count").Int()
	must(err)
	fmt.Println(sides, "held", holds)
	check(count == total, "two programs were at work at the same time:", count, total)
}

// facts are what each library says about a key of the other.
func facts() {
	lock, late := client.Lock("facts"), mutex("facts", 10*time.Second)
	must(late.Lock())
	_, denied := lock.TryAcquire(ctx)
	_, info := lock.Info(ctx)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, waited := acquireBesideRedsync(short, lock)
	check(errors.Is(waited, rlock.ErrTimeout), waited)
	for _, err := range []error{denied, info} {
		check(errors.Is(err, rlock.ErrNotALock), err)
	}
	must(app.PExpire(ctx, "facts", 50*time.Millisecond).Err()) // as if its work had taken longer
	held, err := acquireBesideRedsync(ctx, lock)
	must(err)
	_, extended := late.Extend()
	_, unlocked := late.Unlock()
	_, obtained := redislock.Obtain(ctx, app, "facts", time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	for _, err := range []error{extended, unlocked, obtained} {
		check(err != nil && strings.Contains(err.Error(), "WRONGTYPE"), err)
	}
	var taken *redsync.ErrTaken
	check(errors.As(mutex("facts", time.Second).TryLock(), &taken), "not taken")
	must(held.Release(ctx))
	must(transfer(ctx, client))
}

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	must(err)
	app = redis.NewClient(options)
	client, err = rlock.ConnectLike(ctx, app, rlock.Options{Wait: 30 * time.Second})
	must(err)
	if len(os.Args) > 1 {
		contend(os.Args[1])
	} else {
		facts()
		together("redsync", "redsync", "one", "one")
		together("redislock", "redislock", "both", "both")
		together("rueidislock", "rueidislock", "spread", "spread")
		together("both", "both", "alone", "alone")
	}
	must(client.Close())
}

func must(err error) { check(err == nil, err) }

func check(true bool, what ...any) {
	if !true {
		log.Panic(what...)
	}
}
