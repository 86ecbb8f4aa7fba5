package tds

import "context"

// serve answers one item; false ends the connection.
func (c *conn) serve(it item) bool {
	c.packets.begin()
	if it.confirm {
		c.packets.keep = false
		c.packets.write(appendDone(nil, tokenDone, doneAttention, CommandNone, 0))
		return c.packets.finish() == nil
	}
	cmd, err := parseCommand(it.kind, it.body)
	if err != nil || it.status&statusResetKeep != 0 {
		return false
	}
	cmd.Conn = c.id
	c.server.requests.Add(1)
	subject := c.subject()
	subject.Op, subject.Request = cmd.op, cmd.Request

	// Held here, the request has not reached the server, nor has what the
	// client sent behind it. So it is waited for by life, not by ctx, and an
	// attention or hang-up of that time does not cancel it.
	refusal, held := cmd.refusal, false
	for _, s := range c.server.faults.pick(AtRequest, subject) {
		kind := s.fault.Effect.kind
		if !c.suffer(c.life, s) {
			return false
		}
		held = held || kind == effectSilence || kind == effectDelay
		refusal = append(refusal, s.fault.Effect.messages...)
	}
	replyFaults := c.server.faults.pick(AtReply, subject)

	c.packets.keep = len(replyFaults) > 0 // until it is known what becomes of the answer
	r := &response{conn: c, packets: &c.packets, rpc: cmd.op == OpRPC, subject: subject}
	if it.status&statusReset != 0 {
		c.reset(r)
	}
	switch {
	case refusal != nil || cmd.transaction == c.open:
	case c.open == 0:
		refusal = refuse(3971, "The server failed to resume the transaction.")
	default:
		refusal = refuse(3989, "New request is not allowed to start because it should come with valid transaction descriptor.")
	}
	if refusal != nil {
		r.fail(refusal)
	} else {
		c.execute(cmd, r, held)
	}
	return c.answer(r, replyFaults) && !r.fatal
}

// reset is sp_reset_connection.
func (c *conn) reset(r *response) {
	c.server.resets.Add(1)
	c.session.Reset()
	if c.open != 0 {
		r.Transaction(TransactionRolledBack)
	}
	r.put(func(b []byte) []byte { return appendEnvBytes(b, envReset, nil, nil) })
}

func (c *conn) execute(cmd command, r *response, held bool) {
	parent := c.ctx
	if held {
		parent = c.life
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(context.Canceled)
	c.mu.Lock()
	c.cancel = cancel
	cancelled := c.attended && !held
	c.mu.Unlock()
	if cancelled {
		cancel(ErrAttention)
	}
	var err error
	switch cmd.op {
	case OpBegin:
		err = c.session.Begin(ctx, cmd.isolation)
		c.transacted(r, err, TransactionBegun, CommandBegin)
	case OpCommit:
		err = c.session.Commit(ctx)
		c.transacted(r, err, TransactionCommitted, CommandEndTran)
	case OpRollback:
		err = c.session.Rollback(ctx)
		c.transacted(r, err, TransactionRolledBack, CommandEndTran)
	default:
		c.session.Execute(ctx, cmd.Request, r)
	}
}

func (c *conn) transacted(r *response, err error, change TransactionChange, cmd Command) {
	if err != nil {
		r.fail(messagesOf(err, Message{Number: 3902, State: 1, Class: 16, Text: "The transaction request failed."}))
		return
	}
	r.Transaction(change)
	r.held = &done{cmd: cmd}
}

// firstRow suffers the faults that come after the first row of an answer.
func (c *conn) firstRow(r *response) {
	for _, s := range c.server.faults.pick(AtRow, r.subject) {
		r.packets.flush()
		if !c.suffer(c.ctx, s) {
			r.dropped = true
			return
		}
		if messages := s.fault.Effect.messages; messages != nil {
			r.fail(messages)
		}
	}
}

// answer ends the answer of a request and sends what of it has not been sent.
func (c *conn) answer(r *response, faults []*Switch) bool {
	var cut *Switch
	for _, s := range faults {
		switch s.fault.Effect.kind {
		case effectCut: // surfaces when the answer is long enough
			cut = s
			continue
		case effectFail:
			r.replace(s.fault.Effect.messages)
		default:
		}
		if !c.suffer(c.ctx, s) {
			return false
		}
	}
	c.mu.Lock()
	attention := c.attended
	c.outstanding--
	c.attended, c.cancel = false, nil
	c.mu.Unlock()
	r.end(attention)
	r.packets.end()
	if cut != nil && len(r.packets.out) > cut.fault.Effect.bytes {
		cut.surface()
		_, _ = c.transport.Write(r.packets.out[:cut.fault.Effect.bytes])
		c.kill(cut.fault.Effect.ending)
		return false
	}
	r.packets.send()
	return r.packets.err == nil
}
