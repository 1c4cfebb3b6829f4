package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
	rlock "rlock.invalid/client"
)

const lease = 30 * time.Second

// ways has the contenders. Everything but the lease, and to wait as long as it takes, is as each library has it.
var ways = map[string]func(url string) (way, error){
	"rlock-client": ofRlock,
	"redsync":      ofRedsync,
}

func ofRlock(url string) (way, error) {
	client, err := rlock.Connect(context.Background(), url, rlock.Options{Lease: lease})
	return func(ctx context.Context, key string) (func() error, error) {
		held, err := client.Lock(key).Acquire(ctx)
		return func() error { return held.Release(ctx) }, err
	}, err
}

func ofRedsync(url string) (way, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	sync := redsync.New(goredis.NewPool(redis.NewClient(options)))
	return func(ctx context.Context, key string) (func() error, error) {
		mutex := sync.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
		return func() error {
			_, err := mutex.UnlockContext(ctx)
			return err
		}, mutex.LockContext(ctx)
	}, nil
}

// monotonic is the time of the clock that all processes share, in ns.
func monotonic() int64 {
	var time unix.Timespec
	fail(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return time.Nano()
}
