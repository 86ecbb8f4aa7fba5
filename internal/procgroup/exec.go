//go:build linux || darwin

package procgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec starts the command in the group, once. A name without a slash is looked up in the PATH of env, as execvp does;
// there is no shell, and a file that the kernel cannot execute is not given to one.
//
// Files are the command's descriptors from 0 up; nil means that it inherits 0, 1 and 2 as they are. (Do not take them
// from [os.File.Fd], which may change a stream's mode for everybody who shares it.) Descriptors above that reach the
// command if they are not close-on-exec, so what the tool itself inherited it passes on.
//
// A command that cannot be started is an [ExecError]; the group is still usable then.
func (g *Group) Exec(argv, env []string, files []uintptr) error {
	if g.deadline.Load() == noDeadline {
		return errors.New("exec: the group has no deadline")
	}
	if len(argv) == 0 {
		return errors.New("exec: no command")
	}
	if files == nil {
		files = []uintptr{0, 1, 2}
	}
	path, err := lookUp(argv[0], env)
	if err != nil {
		return err
	}
	if err := g.beginExec(); err != nil {
		return err
	}
	// Without mu: an exec may hang in a file system, and Kill and Signal must not. While forking is set nobody waits for
	// a process of this group. So its number stays taken even if the supervisor dies, the child can join, and the waiter
	// kills it when endExec has woken it.
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: g.pid},
	})
	g.endExec(pid)
	return notExecutable(argv[0], err)
}

func (g *Group) beginExec() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.killed:
		return errors.New("exec: the group was killed")
	case g.dying:
		return ErrSupervisorDied
	case g.forking, g.child != 0:
		return errors.New("exec: the group has a command already")
	}
	g.forking = true
	return nil
}

// endExec takes the child's pid, 0 if there is none, and sends what came in the meantime.
func (g *Group) endExec(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forking = false
	g.child = pid
	for _, sig := range g.held {
		_ = g.send(sig)
	}
	g.held = nil
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// notExecutable explains why the kernel did not execute a file that is there.
func notExecutable(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOEXEC):
		err = fmt.Errorf("%w (a script without a #! line?)", err)
	case errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("its interpreter: %w", err)
	}
	return &ExecError{Name: name, Code: CodeNotExecutable, Err: err}
}

// lookUp finds the file that execvp would execute.
func lookUp(name string, env []string) (string, error) {
	if name == "" {
		return "", &ExecError{Name: `""`, Code: CodeNotFound, Err: unix.ENOENT}
	}
	if strings.Contains(name, "/") {
		return name, checkExecutable(name, name)
	}
	found := &ExecError{Name: name, Code: CodeNotFound, Err: errors.New("not found in PATH")}
	for _, dir := range filepath.SplitList(searchPath(env)) {
		path := filepath.Join(dir, name) // "" is the current folder, as for execvp
		err := checkExecutable(name, path)
		if err == nil {
			return path, nil
		}
		if err, ok := errors.AsType[*ExecError](err); ok && err.Code == CodeNotExecutable {
			found = err // a later folder may have one that is
		}
	}
	return "", found
}

func searchPath(env []string) string {
	for _, variable := range env {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			return path
		}
	}
	return "/bin:/usr/bin"
}

// checkExecutable returns nil or an *ExecError.
func checkExecutable(name, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return &ExecError{Name: name, Code: CodeNotFound, Err: unix.ENOENT}
	case err != nil:
		err, _ := errors.AsType[*fs.PathError](err)
		return &ExecError{Name: name, Code: CodeNotExecutable, Err: err.Err}
	case info.IsDir():
		return &ExecError{Name: name, Code: CodeNotExecutable, Err: unix.EISDIR}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &ExecError{Name: name, Code: CodeNotExecutable, Err: err}
	}
	return nil
}
