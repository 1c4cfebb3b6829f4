package rlock

import (
	"context"
	"time"
)

// request sends a command that belongs to no machine.
func (c *Client) request(ctx context.Context, lock string, words ...string) (any, error) {
	return c.requestFor(ctx, func(*link, time.Duration, answer) {}, lock, words...)
}

// requestFor also says by which link each attempt went, when, and whether it failed; that may be after the end of ctx.
func (c *Client) requestFor(ctx context.Context, went func(*link, time.Duration, answer), lock string, words ...string) (any, error) {
	limited, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	var once *link // where the next attempt goes, in a cluster whose slot moves
	for {
		told := make(chan answer, 1)
		var reply any
		var link *link
		c.do(func() {
			if link = c.linkFor(lock); once != nil {
				link = once
				link.send([]string{"ASKING"}, c.response, ignore)
			}
			link.send(words, c.response, func(received any, sentAt time.Duration) {
				reply = received
				refused, _ := received.(serverError)
				failed, moved := c.failure(received, lock, link), false
				if moved, once = c.redirected(refused, lock, link); moved {
					failed.kind = failedPassing
				}
				went(link, sentAt, failed)
				told <- failed
			})
		})
		failed := answer{kind: failedUnanswered}
		select {
		case failed = <-told:
		case <-limited.Done():
		}
		late := limited.Err() != nil
		switch {
		case !failed.failed():
			return reply, nil
		case c.ended.Err() != nil:
			return nil, closed()
		case late && (ctx.Err() != nil || failed.kind != failedPassing):
			var overdue error
			c.do(func() { overdue = link.overdue(ctx) })
			return nil, overdue
		case late || failed.kind != failedPassing:
			return nil, failed.err
		}
		// It was surely not carried out.
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limited.Done():
		}
	}
}

// The caller of the following holds the mutex.

// failure is what became of a command that did not get the reply it was for, and the reader of a lock's reply otherwise.
func (c *Client) failure(reply any, lock string, from *link) answer {
	switch reply := reply.(type) {
	case undelivered:
		return answer{kind: reply.kind, err: reply.err}
	case serverError:
		if reply.code() == "READONLY" && !c.endpoint.cluster {
			failed := replica(from.server, reply)
			c.dropAll(failed)
			return answer{kind: failedPassing, err: failed}
		}
		return reply.refusal(lock, from.server)
	}
	return answer{}
}

// dropAll: the server is no longer a primary. The next connections find the one that is.
func (c *Client) dropAll(why error) {
	for _, link := range c.links {
		link.drop(why)
	}
}
