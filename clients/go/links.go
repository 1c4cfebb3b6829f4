package rlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// The links of a client: one, or one for each node of a cluster that is used. Messages come by the link of the commands. All this is
// called with the client's mutex.

func (c *Client) open(address string) *link {
	l := &link{address: address, server: address, client: c, woken: make(chan struct{}, 1)}
	l.dial = func(ctx context.Context) (net.Conn, string, error) { return c.reach(ctx, address) }
	if c.endpoint.follows() && address == "" {
		l.server = c.endpoint.service
	}
	l.trouble = unreachable(l.server, errors.New("no connection yet"))
	// The grace of a session has room for a pause, an answer, and a quarter in which its holds are tied to the next connection.
	l.pace = func() time.Duration { return min(c.response, c.shortestGrace()/4) }
	l.came, l.went = func() {}, func(bool, *Error) {}
	l.ended, l.end = context.WithCancel(c.ended)
	l.downAt = now()
	c.running.Add(1)
	go l.keep(l.ended)
	return l
}

// reach connects to a server: to this one, or to the primary that the Sentinels name.
func (c *Client) reach(ctx context.Context, server string) (net.Conn, string, error) {
	moves := 0
	if c.endpoint.follows() {
		c.do(func() { moves = c.sentinels.moves })
		found, err := c.primary(ctx)
		if err != nil {
			return nil, c.endpoint.service, err
		}
		server = found
	}
	conn, told, err := c.endpoint.open(ctx, &c.endpoint.options, server)
	if err == nil && !c.endpoint.cluster {
		c.do(func() {
			if field[string](readFields(told[0]), "mode") == "cluster" {
				err = unsupported(fmt.Sprintf("the server %s is one of a cluster; connect with redis+cluster://%s", server, server))
			} else if demoted(told[0]) {
				err = replica(server, nil)
			} else if news := &c.sentinels; moves != news.moves && server != news.primary {
				err = fmt.Errorf("the primary is %s now", news.primary)
			}
		})
		if err != nil {
			_ = conn.Close()
		}
	}
	return conn, server, err
}

// link is the one to this address.
func (c *Client) link(address string) *link {
	if l := c.links[address]; l != nil {
		return l
	}
	l := c.open(address)
	c.links[address] = l
	l.came = func() { c.came(l) }
	l.went = func(wasUp bool, err *Error) { c.went(l, wasUp, err) }
	l.message = func(channel, text string) { c.hear(l, channel, text) }
	// A server may be demoted without a word to its clients.
	l.pulse = func(within time.Duration) {
		l.send([]string{"HELLO"}, within, func(reply any, sentAt time.Duration) { c.alive(l, reply, sentAt) })
	}
	return l
}

// at works on the acquisitions whose commands go to this link.
func (c *Client) at(l *link, work func(*acquisition)) {
	c.each(func(a *acquisition) bool { return a.link == l }, work)
}

func (c *Client) came(l *link) {
	// Before anything else, held locks are renewed, and tied to this connection.
	c.at(l, (*acquisition).linkUp)
	c.introduce(l)
	if c.endpoint.cluster {
		c.survey(l)
		c.each(func(a *acquisition) bool { return !a.link.up() }, (*acquisition).follow)
	}
	offer(c.settled, nil)
	c.reconnected()
}

func (c *Client) went(l *link, wasUp bool, err *Error) {
	if c.failures++; c.failures >= len(c.endpoint.seeds) {
		offer(c.settled, error(err))
	}
	l.channel = ""
	c.disconnected(wasUp, err)
	c.at(l, (*acquisition).linkDown)
	// The server does not let this user in.
	if errors.Is(err, ErrPermission) {
		c.at(l, func(a *acquisition) { a.cancel(err) })
	}
	if c.endpoint.cluster {
		c.leaveNode(l)
	}
}

func (c *Client) alive(l *link, reply any, sentAt time.Duration) {
	if _, failed := reply.(undelivered); failed {
		return
	}
	if !c.endpoint.cluster && demoted(reply) {
		c.dropAll(replica(l.server, nil))
		return
	}
	c.each(func(a *acquisition) bool { return a.order.grace > 0 && a.tied == l }, func(a *acquisition) {
		a.feed(func() { a.machine.alive(sentAt) })
	})
}

// listen subscribes before the first wait on a connection, and returns the channel for an ENQUEUE that is sent now. Each subscription
// has a channel of its own: a half-open one before it is nobody's receiver.
func (l *link) listen(lock string) string {
	if l.channel != "" {
		return l.channel
	}
	word, channel := "SUBSCRIBE", "rlock:grants:"+random()
	if l.client.endpoint.cluster {
		word, channel = "SSUBSCRIBE", fmt.Sprintf("%s:{%d}", channel, tagOf(l.client.slotFor(l, lock)))
	}
	l.channel, l.refused = channel, nil
	l.send([]string{word, channel}, l.client.response, func(reply any, _ time.Duration) {
		refused, isRefused := reply.(serverError)
		l.wanders = isRefused
		if isRefused && l.channel == channel {
			// The next wait subscribes again, since the rules may have changed.
			l.channel = ""
			if told := refused.refusal("", l.server); told.kind == failedFinal && refused.code() != "MOVED" {
				l.refused = told.err
			}
		}
	})
	return l.channel
}

// unsubscribed: the slot of the channel has left the server. Its waiters ask again, with another channel.
func (l *link) unsubscribed() {
	l.channel, l.wanders = "", true
	l.client.at(l, func(a *acquisition) {
		if a.machine.undecided() {
			a.linkDown()
			a.linkUp()
		}
	})
}

func random() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err) // from Go 1.24 on it does so itself
	}
	return hex.EncodeToString(bytes[:])
}

// hear takes a message.
func (c *Client) hear(l *link, channel, text string) {
	told, known := readMessage(text)
	a := c.acquisitions[told.claim]
	switch {
	case !known:
	case a != nil:
		current := a.link == l && channel == l.channel && channel == a.channel
		a.feed(func() { a.machine.message(told.word, told.token, told.lease, current) })
	case told.word == "granted" && strings.HasPrefix(told.claim.owner, c.identity+":") && !slices.Contains(c.kept, told.claim):
		// The acquisition has ended, and the server has granted a repeat of its requests.
		o := order{lock: told.claim.lock, owner: told.claim.owner, mode: told.claim.mode}
		l.send(o.releaseBut(0), c.response, ignore)
	}
}

// mostKept is how many holds are remembered that outlast their release. A message is late by seconds at most.
const mostKept = 1000

// keep: nothing may end this hold, not even a late message.
func (c *Client) keep(which claim) {
	c.kept = append(c.kept[max(0, len(c.kept)-mostKept+1):], which)
}

func (c *Client) introduce(l *link) {
	// A user without this permission, or an older server, leaves the connection without a name.
	for _, words := range [][]string{{"SETNAME", c.called}, {"SETINFO", "LIB-NAME", "rlock-client"}, {"SETINFO", "LIB-VER", Version}} {
		l.send(append([]string{"CLIENT"}, words...), c.response, ignore)
	}
}

func ignore(any, time.Duration) {}

func (c *Client) disconnected(wasUp bool, err *Error) {
	if wasUp && c.lostAt == 0 && c.ended.Err() == nil {
		c.lostAt = now()
		c.tell(Event{Kind: Disconnected, Err: err})
	}
}

func (c *Client) reconnected() {
	if c.lostAt == 0 {
		return
	}
	for _, l := range c.links {
		if !l.up() {
			return
		}
	}
	c.tell(Event{Kind: Reconnected, Took: now() - c.lostAt})
	c.lostAt = 0
}
