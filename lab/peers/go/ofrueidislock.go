package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func init() { ways["rueidislock"] = ofRueidislock }

// One key and NOLOOP, as its page shows for one server that is newer than 7.0.4.
func ofRueidislock(url string) (way, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyValidity: lease, KeyMajority: 1, NoLoopTracking: true,
	})
	return func(ctx context.Context, key string) (func() error, error) {
		_, release, err := locker.WithContext(ctx, key)
		return func() error {
			release()
			return nil
		}, err
	}, err
}
