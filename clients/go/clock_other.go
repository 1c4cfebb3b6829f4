//go:build !linux

package rlock

import "time"

// now is the time since the program was started. Whether it includes suspended time depends on the system.
func now() time.Duration { return time.Since(started) }
