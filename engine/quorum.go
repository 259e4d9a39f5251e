package engine

// Vote is what one master said in a round. The zero value is the harmless
// one: a vote that nobody wrote is never a grant.
type Vote uint8

const (
	Owed    Vote = iota // no answer yet
	Granted             // the master did what was asked
	Refused             // the master answered that it will not: the key is another's, or gone
	Failed              // an error reply, no connection, or no answer in time
	Broken              // a reply that this command cannot have: the stream is out of step
)

func (v Vote) String() string {
	return [...]string{"owed", "granted", "refused", "failed", "broken"}[v]
}

// Decision is what the votes of a round add up to.
type Decision uint8

const (
	Undecided Decision = iota
	Won                // a quorum granted
	Lost               // a quorum can no longer grant, and the masters that could are there
	NoQuorum           // too many masters failed for either answer
)

func (d Decision) String() string {
	return [...]string{"undecided", "won", "lost", "no quorum"}[d]
}

// Tally counts the votes of one round. It is a value without a clock and
// without sockets: the rules of a decision are here and nowhere else.
type Tally struct {
	Masters                  int // N, also those that nothing was sent to
	Granted, Refused, Failed int
}

// Quorum is N/2+1: two quorums of N masters always share a master.
func (t Tally) Quorum() int { return Quorum(t.Masters) }

// Quorum is the number of masters that decide for all n.
func Quorum(n int) int { return n/2 + 1 }

// Owed is the number of votes that have not come.
func (t Tally) Owed() int { return t.Masters - t.Granted - t.Refused - t.Failed }

// Overdue is the tally when no further vote will count: what is owed failed.
func (t Tally) Overdue() Tally {
	t.Failed += t.Owed()
	return t
}

func (t *Tally) count(v Vote) {
	switch v {
	case Granted:
		t.Granted++
	case Refused:
		t.Refused++
	case Owed:
	default:
		t.Failed++
	}
}

// Acquisition decides a round that asks for something which another may have:
// won at a quorum of grants; once that is out of reach, lost, unless so many
// masters failed that no caller could have won.
func (t Tally) Acquisition() Decision {
	switch {
	case t.Granted >= t.Quorum():
		return Won
	case t.Granted+t.Owed() >= t.Quorum():
		return Undecided
	case t.Failed > t.Masters-t.Quorum():
		return NoQuorum
	default:
		return Lost
	}
}

// Confirmation decides a round about something that we hold: lost only when so
// many masters say that it is gone that no quorum can still have it. Anything
// between that and a quorum of grants is not known, hence no quorum.
func (t Tally) Confirmation() Decision {
	rest := t.Masters - t.Quorum()
	switch {
	case t.Granted >= t.Quorum():
		return Won
	case t.Refused > rest:
		return Lost
	case t.Granted+t.Owed() >= t.Quorum(), t.Refused+t.Owed() > rest:
		return Undecided
	default:
		return NoQuorum
	}
}
