package rlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	mostSentinels = 32
	// How long the other Sentinels may take when one has answered.
	sentinelWindow = 250 * time.Millisecond
	// How often each Sentinel is asked while a lock is held or awaited.
	sentinelPace = time.Second
)

// sentinels are those of the settings, and those that they list.
type sentinels struct {
	known []string
	also  []string // more addresses of those: a name is also an address
	epoch int64    // of the configuration that was believed last
	// The primary of the last news, and how often that changed.
	primary string
	moves   int
}

// verdict is what a Sentinel says: which server is the primary, in which epoch of the configuration.
type verdict struct {
	sentinel, primary string
	epoch             int64
	others            []string
	err               error
}

// believe is the verdict with the highest epoch, and of several with that one what most say. An older one than was believed
// before needs the answers of a majority: Sentinels that were set up anew count from 0.
func (s *sentinels) believe(service string, all []verdict) (verdict, error) {
	var best verdict
	var failed []verdict
	votes := map[string]int{}
	for _, each := range all {
		if each.err != nil {
			failed = append(failed, each)
			continue
		}
		if each.epoch > best.epoch {
			best, votes = each, map[string]int{}
		}
		if each.epoch == best.epoch {
			if votes[each.primary]++; votes[each.primary] > votes[best.primary] {
				best = each
			}
		}
	}
	if best.primary == "" {
		return best, unnamed(service, failed)
	}
	if best.epoch < s.epoch && 2*(len(all)-len(failed)) <= len(s.known) {
		return best, fmt.Errorf("the Sentinel %s names it by an old configuration", best.sentinel)
	}
	s.epoch = best.epoch
	return best, nil
}

// unnamed: no Sentinel names the primary.
func unnamed(service string, failed []verdict) error {
	var texts []string
	var refused serverError
	refusals := 0
	for _, each := range failed {
		if errors.As(each.err, &refused) {
			refusals++
		}
		texts = append(texts, each.sentinel+": "+brief(each.err))
	}
	if refusals == len(failed) {
		return connectError(failed[0].sentinel, failed[0].err)
	}
	text := fmt.Sprintf("no Sentinel names the primary of %s (%s); check their addresses and the name", service, strings.Join(texts, ", "))
	return &Error{kind: ErrUnreachable, text: text}
}

// primary asks all known Sentinels at once, and then those that they list.
func (c *Client) primary(ctx context.Context) (string, error) {
	var all []verdict
	var asked, known []string
	for {
		c.do(func() { known = slices.Clone(c.sentinels.known) })
		if len(asked) == len(known) {
			break
		}
		all = append(all, c.askAll(ctx, known[len(asked):], len(all) > 0)...)
		asked = known
		c.do(func() {
			for _, each := range all {
				c.know(each.others...)
			}
		})
	}
	var best verdict
	var err error
	c.do(func() {
		before := c.sentinels.epoch
		if best, err = c.sentinels.believe(c.endpoint.service, all); c.sentinels.epoch > before {
			c.moved(best.primary) // the other connection may be older than this news
		}
	})
	return best.primary, err
}

// askAll waits for all of these, or for a moment after the first answer: one that hangs must not keep the client. The moment is
// longer where the answers are older than what is known: another Sentinel has said that.
func (c *Client) askAll(ctx context.Context, which []string, answered bool) (all []verdict) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	window, epoch := sentinelWindow, int64(0)
	c.do(func() { epoch = c.sentinels.epoch })
	if deadline, bounded := ctx.Deadline(); bounded {
		window = min(window, time.Until(deadline)/4)
	}
	answers := make(chan verdict, len(which))
	for _, address := range which {
		go func() { answers <- c.ask(ctx, address) }()
	}
	var over <-chan time.Time
	if answered {
		over = time.After(window)
	}
	for range which {
		select {
		case told := <-answers:
			all = append(all, told)
			switch {
			case told.err != nil || answered:
			case told.epoch >= epoch:
				over, answered = time.After(window), true
			case over == nil:
				over = time.After(2 * window)
			}
		case <-over:
			return all
		}
	}
	return all
}

// ask asks a Sentinel on a connection of its own. The epoch comes first: while a fail-over is under way, only the second answer
// names the new primary, and a new epoch must not meet an old address.
func (c *Client) ask(ctx context.Context, sentinel string) verdict {
	e := c.endpoint
	told := verdict{sentinel: sentinel}
	conn, replies, err := e.open(ctx, &e.sentinel, sentinel, []any{"SENTINEL", "MASTER", e.service},
		[]any{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", e.service}, []any{"SENTINEL", "SENTINELS", e.service})
	if err != nil {
		told.err = err
		return told
	}
	if at := conn.RemoteAddr().String(); at != sentinel {
		c.do(func() {
			if !slices.Contains(c.sentinels.also, at) {
				c.sentinels.also = append(c.sentinels.also, at)
			}
		})
	}
	_ = conn.Close()
	told.epoch = epochOf(replies[1])
	if told.primary, err = addressOf(replies[2]); err != nil {
		told.err = err
	}
	list, _ := replies[3].([]any)
	for _, each := range list {
		other := readFields(each)
		told.others = append(told.others, net.JoinHostPort(field[string](other, "ip"), field[string](other, "port")))
	}
	return told
}

// epochOf is 0 for a user that may not ask.
func epochOf(told any) int64 {
	epoch, _ := strconv.ParseInt(field[string](readFields(told), "config-epoch"), 10, 64)
	return epoch
}

func addressOf(told any) (string, error) {
	refused, isRefused := told.(serverError)
	primary, _ := told.([]any)
	switch {
	case isRefused:
		return "", refused
	case told == nil:
		return "", errors.New("it does not know this name")
	case len(primary) != 2:
		return "", errProtocol
	}
	return net.JoinHostPort(fmt.Sprint(primary[0]), fmt.Sprint(primary[1])), nil
}

// The caller of the following holds the mutex.

// know watches Sentinels that were not known.
func (c *Client) know(addresses ...string) {
	for _, address := range addresses {
		s := &c.sentinels
		if len(s.known) < mostSentinels && !slices.Contains(s.known, address) && !slices.Contains(s.also, address) {
			s.known = append(s.known, address)
			c.watch(address)
		}
	}
}

// watch listens to a Sentinel for as long as the client lives, and asks it while there are acquisitions.
func (c *Client) watch(address string) {
	e := c.endpoint
	dial := func(ctx context.Context) (net.Conn, string, error) {
		conn, _, err := e.open(ctx, &e.sentinel, address)
		return conn, address, err
	}
	l := c.open(address)
	l.dial = dial
	l.came = func() {
		c.introduce(l)
		l.send([]string{"SUBSCRIBE", "+switch-master"}, c.response, ignore)
	}
	l.message = func(_, text string) {
		// The service, the old address and the new one.
		if words := strings.Fields(text); len(words) == 5 && words[0] == e.service {
			c.moved(net.JoinHostPort(words[3], words[4]))
		}
	}
	l.pace = func() time.Duration { return sentinelPace }
	epoch, denied := int64(0), false
	l.pulse = func(within time.Duration) {
		if len(c.acquisitions) == 0 || denied {
			l.send([]string{"HELLO"}, within, ignore)
			return
		}
		l.send([]string{"SENTINEL", "MASTER", c.endpoint.service}, within, func(reply any, _ time.Duration) {
			epoch, denied = epochOf(reply), denies(reply)
		})
		l.send([]string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", c.endpoint.service}, within, func(reply any, _ time.Duration) {
			if primary, err := addressOf(reply); err == nil && epoch > c.sentinels.epoch {
				c.sentinels.epoch = epoch
				c.moved(primary)
			}
		})
	}
}

// moved: a Sentinel names this primary. Connections to another server end now, and the Sentinels are asked anew.
func (c *Client) moved(primary string) {
	if s := &c.sentinels; s.primary != primary {
		s.primary = primary
		s.moves++
	}
	if l := c.link(""); l.server != primary {
		l.drop(fmt.Errorf("the primary of %s is %s now", c.endpoint.service, primary))
	}
}
