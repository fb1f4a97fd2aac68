// SPDX-License-Identifier: GPL-2.0
/*
 * Start guests from a snapshot of a waiting one: the host's side. Each is a
 * child process of that guest's kernel with a copy of its physical memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <as-layout.h>
#include <os.h>
#include <snapshot.h>

#define CONSOLE "console.log"
/* Descriptors of the console are the first that a kernel opens. */
#define CONSOLE_FD_MAX 64

static void die(const char *what)
{
	os_warn("snapshot: %s: %s\n", what, strerror(errno));
	_exit(70);
}

/* Copy what is allocated of a memory file, but not the struct pages. */
static void copy_memory(int from, int to)
{
	/* Neither on the stack nor from malloc: both may be in that memory. */
	static char chunk[1 << 16];
	off_t at = 0, hole;
	struct stat st;

	if (fstat(from, &st) || ftruncate(to, st.st_size))
		die("size of memory");
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		hole = lseek(from, at, SEEK_HOLE);
		if (hole < 0)
			die("extents of memory");
		while (at < hole) {
			unsigned long addr = uml_physmem + at;
			const char *source = (const char *) addr;
			ssize_t n = hole - at;

			if (addr >= snapshot_map_start && addr < snapshot_map_end) {
				at = snapshot_map_end - uml_physmem;
				continue;
			}
			if (addr < snapshot_map_start && addr + n > snapshot_map_start)
				n = snapshot_map_start - addr;
			/*
			 * Below, the executable is mapped, not the file, which
			 * has the stub's page there.
			 */
			if (addr < uml_reserved) {
				if (n > (ssize_t) sizeof(chunk))
					n = sizeof(chunk);
				if (addr + n > uml_reserved)
					n = uml_reserved - addr;
				source = chunk;
				n = pread(from, chunk, n, at);
				if (n <= 0)
					die("memory");
			}
			n = pwrite(to, source, n, at);
			if (n <= 0)
				die("room for memory");
			at += n;
		}
	}
	if (errno != ENXIO)
		die("extents of memory");
}

/*
 * Map the new file wherever the old one is mapped: physical and vmalloc. The struct
 * pages, a third of a small guest, stay those of the old file, whose guest waits and
 * so never changes them: a copy has its own of those to which it writes. Once they
 * are mapped like this, a copy of the copy gets them by fork().
 */
static void exchange_mappings(int old, int new)
{
	static char maps[1 << 20];
	unsigned long size = snapshot_map_end - snapshot_map_start;
	int fd, len = 0, n, map_is_shared = 0;
	struct stat st;
	char *line;

	if (fstat(old, &st))
		die("memory file");
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("/proc/self/maps");
	while ((n = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += n;
	close(fd);
	if (n < 0 || len == sizeof(maps) - 1)
		die("/proc/self/maps");
	maps[len] = 0;
	for (line = maps; *line; line = strchr(line, '\n') + 1) {
		unsigned long start, end, inode;
		unsigned long long offset;
		unsigned int major, minor;
		char r, w, x, s;
		int prot;

		if (sscanf(line, "%lx-%lx %c%c%c%c %llx %x:%x %lu", &start, &end,
			   &r, &w, &x, &s, &offset, &major, &minor, &inode) != 10)
			die("a line of /proc/self/maps");
		/* The file has no name: no other file has its number there. */
		if (s != 's' || inode != st.st_ino)
			continue;
		prot = (r == 'r' ? PROT_READ : 0) | (w == 'w' ? PROT_WRITE : 0) |
			(x == 'x' ? PROT_EXEC : 0);
		if (mmap((void *) start, end - start, prot,
			 MAP_SHARED | MAP_FIXED, new, offset) == MAP_FAILED)
			die("mapping of memory");
		map_is_shared |= start <= snapshot_map_start &&
			snapshot_map_end <= end;
	}
	if (map_is_shared &&
	    mmap((void *) snapshot_map_start, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, old,
		 snapshot_map_start - uml_physmem) == MAP_FAILED)
		die("mapping of struct pages");
	if (dup3(new, old, O_CLOEXEC) < 0)
		die("memory file");
	close(new);
}

/* Give this guest a console of its own wherever the other's was. */
static void exchange_console(void)
{
	struct stat old, st;
	int fd, i;

	fd = open(CONSOLE, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (fd < 0 || fstat(1, &old))
		die(CONSOLE);
	for (i = 1; i < CONSOLE_FD_MAX; i++)
		if (i != fd && !fstat(i, &st) && st.st_dev == old.st_dev &&
		    st.st_ino == old.st_ino && dup2(fd, i) < 0)
			die(CONSOLE);
	close(fd);
}

/* Move to a processor of the host, and return the text after its number. */
static const char *move_to_processor(const char *text)
{
	cpu_set_t set;
	char *end;
	long cpu;

	if (!strncmp(text, "- ", 2))
		return text + 2;
	cpu = strtol(text, &end, 10);
	if (end == text || *end != ' ' || cpu < 0 || cpu >= CPU_SETSIZE) {
		errno = EINVAL;
		die("processor");
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* The kernel's own function has the name of the library's. */
	if (syscall(SYS_sched_setaffinity, 0, sizeof(set), &set))
		die("processor");
	return end + 1;
}

/*
 * Files that are open for writing in the old folder become those of the new one,
 * which has copies of them: who sends the request makes these before.
 */
static void exchange_files(const char *old, int physmem_fd)
{
	/* Not from malloc, as opendir()'s: that may be in the guest's memory. */
	static char entries[1 << 12], path[4096];
	size_t length = strlen(old);
	int fd, file, flags, folder;
	struct dirent *entry;
	struct stat memory, st;
	ssize_t at, end, n;

	if (fstat(physmem_fd, &memory))
		die("memory file");
	folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		die("/proc/self/fd");
	for (at = end = 0;; at += entry->d_reclen) {
		if (at == end) {
			at = 0;
			end = syscall(SYS_getdents64, folder, entries,
				      sizeof(entries));
			if (end <= 0)
				break;
		}
		entry = (struct dirent *) (entries + at);
		n = readlinkat(folder, entry->d_name, path, sizeof(path) - 1);
		if (n < 0)
			continue;
		fd = atoi(entry->d_name);
		path[n] = 0;
		if (strncmp(path, old, length) || path[length] != '/' ||
		    !strcmp(path + length + 1, CONSOLE))
			continue;
		flags = fcntl(fd, F_GETFL);
		if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
		    (flags & O_ACCMODE) == O_RDONLY ||
		    (st.st_dev == memory.st_dev && st.st_ino == memory.st_ino))
			continue;
		/* A deleted file has no copy, and so is refused here. */
		file = open(path + length + 1, flags & (O_ACCMODE | O_APPEND));
		if (file < 0 || dup3(file, fd, O_CLOEXEC) < 0)
			die(path);
		close(file);
	}
	if (end < 0)
		die("/proc/self/fd");
	close(folder);
}

static void become_copy(int physmem_fd, const char *request, int parent)
{
	const char *blank = strchr(request, ' ');
	static char old[4096];
	int memory;

	/* It must not outlive its parent. */
	os_set_pdeathsig();
	if (getppid() != parent)
		_exit(0);
	setpgid(0, 0);
	if (!getcwd(old, sizeof(old)) || !blank ||
	    chdir(move_to_processor(blank + 1)))
		die("folder");
	exchange_console();
	exchange_files(old, physmem_fd);
	memory = os_temporary_file();
	if (memory < 0)
		die("memory file");
	copy_memory(physmem_fd, memory);
	exchange_mappings(physmem_fd, memory);
}

static void answer(int control, const char *text)
{
	/* Nobody is there any more: end, and with this all that it started. */
	if (send(control, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void report_ended(int control)
{
	struct rusage used;
	int pid, status;
	char text[128];

	/* Stubs are children too, but stopped, and known to be. */
	while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
		snprintf(text, sizeof(text), "ended %d %d %ld.%06ld %ld.%06ld",
			 pid, status, used.ru_utime.tv_sec, used.ru_utime.tv_usec,
			 used.ru_stime.tv_sec, used.ru_stime.tv_usec);
		answer(control, text);
	}
}

/* A request may bring the socket on which the copy waits for requests. */
static ssize_t receive(int control, char *request, int *brought)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} more;
	/* Two strings: both end within it. */
	struct iovec text = { request, SNAPSHOT_REQUEST_MAX - 2 };
	struct msghdr message = {
		.msg_iov = &text,
		.msg_iovlen = 1,
		.msg_control = &more,
		.msg_controllen = sizeof(more),
	};
	struct cmsghdr *found;
	ssize_t n;

	*brought = -1;
	n = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
	found = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (found && found->cmsg_type == SCM_RIGHTS)
		memcpy(brought, CMSG_DATA(found), sizeof(int));
	return n;
}

int os_snapshot_serve(int *control_fd, int physmem_fd, char *request,
		      unsigned long long now)
{
	int ends, pid, brought, control = *control_fd, parent = getpid();
	struct signalfd_siginfo ended;
	sigset_t children, before;
	char text[64];
	ssize_t n;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &children, &before))
		return -errno;
	ends = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ends < 0)
		return -errno;
	fflush(stdout);
	fflush(stderr);
	snprintf(text, sizeof(text), "ready %llu", now);
	if (send(control, text, strlen(text), MSG_NOSIGNAL) < 0)
		return -errno;
	while (1) {
		struct pollfd wanted[2] = {
			{ .fd = control, .events = POLLIN },
			{ .fd = ends, .events = POLLIN },
		};

		if (poll(wanted, 2, -1) < 0 && errno != EINTR)
			_exit(71);
		while (read(ends, &ended, sizeof(ended)) > 0)
			;
		report_ended(control);
		if (!wanted[0].revents)
			continue;
		n = receive(control, request, &brought);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		request[n] = 0;
		request[n + 1] = 0;
		pid = fork();
		if (pid == 0) {
			close(control);
			close(ends);
			*control_fd = brought;
			sigprocmask(SIG_SETMASK, &before, NULL);
			become_copy(physmem_fd, request, parent);
			return 0;
		}
		if (brought >= 0)
			close(brought);
		if (pid < 0) {
			snprintf(text, sizeof(text), "failed %d", errno);
		} else {
			/* Here too: whoever reads the answer may end the group. */
			setpgid(pid, pid);
			snprintf(text, sizeof(text), "started %d", pid);
		}
		answer(control, text);
	}
}
