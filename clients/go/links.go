package rlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// The links of a client: one for commands, or one for each node of a cluster, and one for messages. All this is called with the
// client's mutex.

// hearing is whether messages arrive.
type hearing int

const (
	deaf hearing = iota
	subscribing
	subscribed // as the server of the subscription says
	hears      // and as the server says that makes the grants
)

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
	c.running.Add(1)
	go l.keep(c.ended)
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
			if demoted(told[0]) {
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

// link is the one for commands to this address.
func (c *Client) link(address string) *link {
	if l := c.links[address]; l != nil {
		return l
	}
	l := c.open(address)
	c.links[address] = l
	l.came = func() { c.commandsCame(l) }
	l.went = func(wasUp bool, err *Error) { c.commandsWent(l, wasUp, err) }
	// A server may be demoted without a word to its clients.
	l.pulse = func(within time.Duration) {
		l.send([]string{"HELLO"}, within, func(reply any, sentAt time.Duration) { c.commandsLive(l, reply, sentAt) })
	}
	return l
}

func (c *Client) linkFor(lock string) *link {
	if c.endpoint.cluster {
		if address, known := c.slots[slotOf(lock)]; known {
			return c.link(address)
		}
	}
	return c.link(c.endpoint.seeds[0])
}

func (c *Client) commandsCame(l *link) {
	// Before anything else, held locks are renewed, and tied to this connection.
	c.each(func(a *acquisition) bool { return !a.machine.waits() && c.linkFor(a.order.lock) == l }, (*acquisition).linkUp)
	c.introduce(l)
	offer(c.settled, nil)
	c.reconnected()
	if c.hearing >= subscribed {
		c.count()
	}
}

func (c *Client) commandsWent(l *link, wasUp bool, err *Error) {
	if c.failures++; c.failures >= len(c.endpoint.seeds) {
		offer(c.settled, error(err))
	}
	c.disconnected(wasUp, err)
	mine := func(a *acquisition) bool { return a.link == l }
	c.each(mine, (*acquisition).linkDown)
	c.refuse(mine, err)
	if !c.endpoint.cluster {
		return
	}
	// The slots of a node that is gone are asked for at another one.
	for slot, address := range c.slots {
		if address == l.address {
			delete(c.slots, slot)
		}
	}
	if seeds := c.endpoint.seeds; seeds[0] == l.address {
		c.endpoint.seeds = append(seeds[1:], seeds[0])
		c.link(c.endpoint.seeds[0])
	}
	c.each(mine, func(a *acquisition) {
		if c.linkFor(a.order.lock).up() {
			a.linkUp()
		}
	})
}

func (c *Client) commandsLive(l *link, reply any, sentAt time.Duration) {
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

// listen subscribes, before the first wait.
func (c *Client) listen() {
	if c.messages != nil {
		if c.hearing == deaf && c.messages.up() {
			c.subscribe()
		}
		return
	}
	l := c.open(c.endpoint.seeds[0])
	c.messages = l
	l.pulse = l.pings(c.channel)
	l.came = func() {
		c.introduce(l)
		c.subscribe()
		c.reconnected()
	}
	l.went = func(wasUp bool, err *Error) {
		c.hearing = deaf
		c.disconnected(wasUp, err)
		c.refuse((*acquisition).waits, err)
	}
	l.message = func(text string) {
		told, known := readMessage(text)
		if a := c.acquisitions[told.claim]; known && a != nil {
			a.feed(func() { a.machine.message(told.word, told.token) })
		}
	}
}

// pings ask by PING, and after its refusal by another SUBSCRIBE: users of a subscription may do that.
func (l *link) pings(channel string) func(within time.Duration) {
	ways := [][]string{{"PING"}, {"SUBSCRIBE", channel}}
	return func(within time.Duration) {
		if len(ways) == 0 {
			return
		}
		way := ways[0]
		l.send(way, within, func(reply any, _ time.Duration) {
			if denies(reply) && len(ways) > 0 && way[0] == ways[0][0] {
				ways = ways[1:]
			}
		})
	}
}

func (c *Client) subscribe() {
	c.hearing = subscribing
	c.messages.send([]string{"SUBSCRIBE", c.channel}, c.response, func(reply any, _ time.Duration) {
		switch refused := reply.(type) {
		case undelivered:
		case serverError:
			c.unheard(refused)
		default:
			c.count()
		}
	})
}

// count asks the server of the commands, which makes the grants, whether it knows the subscription.
func (c *Client) count() {
	c.hearing = subscribed
	c.counts++
	number := c.counts
	c.link(c.endpoint.seeds[0]).send([]string{"PUBSUB", "NUMSUB", c.channel}, c.response, func(reply any, _ time.Duration) {
		if number != c.counts || c.hearing != subscribed {
			return
		}
		switch reply := reply.(type) {
		case undelivered:
		case serverError:
			c.unheard(reply)
		case []any:
			if len(reply) != 2 || reply[1] == int64(0) {
				c.messages.drop(errors.New("the subscription is on another server"))
				return
			}
			c.hearing = hears
			c.each((*acquisition).waits, (*acquisition).linkUp)
		}
	})
}

// unheard: this user gets no messages, so waits end. The next one subscribes again, since the rules may have changed.
func (c *Client) unheard(refused serverError) {
	told := refused.refusal("", c.messages.server)
	if told.kind == failedPassing {
		c.messages.drop(told.err) // the next connection subscribes again
		return
	}
	c.hearing = deaf
	c.each((*acquisition).waits, func(a *acquisition) { a.feed(func() { a.machine.cancel(told.err) }) })
}

// refuse: the server does not let this user in.
func (c *Client) refuse(which func(*acquisition) bool, err *Error) {
	if errors.Is(err, ErrPermission) {
		c.each(which, func(a *acquisition) { a.feed(func() { a.machine.cancel(err) }) })
	}
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
	if c.lostAt == 0 || c.messages != nil && !c.messages.up() {
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

// slotOf is the slot of a key in a cluster: CRC16 (XMODEM) of its hash tag, or of all of it.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return int(crc % 16384)
}
