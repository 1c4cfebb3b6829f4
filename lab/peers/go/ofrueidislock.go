package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func init() { ways["rueidislock"] = ofRueidislock }

// One key, as its page says for one server. Without NoLoopTracking, which is off as shipped: with it, an acquisition that took longer
// than 20 ms waited for ever for a message about its own deletion.
func ofRueidislock(url string) (way, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyValidity: lease, KeyMajority: 1,
	})
	return func(ctx context.Context, key string) (func() error, error) {
		_, release, err := locker.WithContext(ctx, key)
		return func() error {
			release()
			return nil
		}, err
	}, err
}
