// Package procgroup runs one command in a process group that does not outlive its right to run.
//
// It knows nothing of leases. It is given a command and a deadline that moves, and promises that at the deadline, or as
// soon as this process (the tool) is gone, every process of the group is dead: whatever happens to the tool, also
// SIGKILL and SIGSTOP.
//
// # How
//
// The guarantee needs a second process, the supervisor: the tool's own executable started again, recognised by its
// argv[0] in [Main]. It is started first, as leader of a new process group, and holds nothing of the tool's: no
// environment, no streams, no inherited files. The tool sends it each deadline through a pipe, as absolute time of the
// boot clock. Only when the supervisor has said that it is ready does the tool fork the command, into the supervisor's
// group. From then on:
//
//	the deadline passes        the supervisor kills the group, itself included
//	the tool dies              the pipe is at its end: the same
//	the supervisor dies        the tool kills the group, and says ErrSupervisorDied
//	the command ends           what is left of the group gets TERM, KILL after the grace, and Gone comes after the last
//	the supervisor is stopped  the tool continues it
//
// A parent-death signal would not do: it reaches only the direct child, and goes off when a thread ends.
//
// # The group's number
//
// A signal must never hit a stranger that got the group's number after its end. The number is taken as long as the
// supervisor's process is, alive or as a zombie, so the supervisor is waited for last: after the last living member of
// its group is gone. Under the same mutex the group is marked as over, and no signal is sent any more.
//
// On Linux the tool becomes a child subreaper, so orphans of the group are its children and it knows the end of the
// group from the kernel: no child left in it, and no living member in /proc. It reaps the other orphans too, as it must
// when it is process 1 of a container. Hence two rules for the process that uses this package: one Group at a time, and
// no children of its own besides, except in its own process group. Darwin has no subreaper: there the end of the group
// is known from the process table alone.
//
// # What is not covered
//
//   - A process that leaves the group (setsid, setpgid; interactive shells do it for their jobs).
//   - A process that this user may not signal: one that changed its user, as sudo does. The group is then not over
//     before that process ends, and no [Gone] comes, but the deadline does not stop it.
//   - Tool and supervisor stopped, or the one stopped and the other killed, at the same time. (SIGKILL by name is not
//     that case: the supervisor has a name of its own.)
//   - A tool that is stopped in the instant between the fork of the command and its exec, until after the deadline.
package procgroup
