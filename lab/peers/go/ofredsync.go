package main

import (
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func init() { ways["redsync"] = ofRedsync }

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
