# CLOCK_BOOTTIME, by which clients decide how long they trust their leases. A test can move it ahead for one program, as
# suspending a machine does for all programs. With leases of an hour, no lease ends because the machine is slow, and
# keep-alive extends when the test moves the clock.
package BootClock;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use ShedLock;

our @EXPORT = qw(boot_clock advance launch_by slow_tool when_an_extend_is_due after_the_deadline);

# In seconds, for a lease of an hour: when more than a third of it has passed, and when all of it except the margin has
# passed.
use constant { when_an_extend_is_due => 1_300, after_the_deadline => 3_595 };

my $source = <<'C';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now)
{
    if (which != CLOCK_BOOTTIME) { /* libfaketime may be preloaded as well */
        int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
        return next(which, now);
    }
    int failed = syscall(SYS_clock_gettime, which, now);
    long slowness = atol(getenv("BOOT_CLOCK_SLOWNESS"));
    now->tv_nsec = (now->tv_sec % slowness * 1000000000 + now->tv_nsec) / slowness;
    now->tv_sec /= slowness;
    FILE *file = fopen(getenv("BOOT_CLOCK"), "r");
    long ahead = 0;
    if (file && fscanf(file, "%ld", &ahead) == 1)
        now->tv_sec += ahead;
    if (file)
        fclose(file);
    return failed;
}
C
my $library;
my $number = 0;

sub compiled
{
	my $folder = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$folder/boot_clock.c", $source);
	system_or_bail('cc', '-shared', '-fPIC', '-o', "$folder/boot_clock.so", "$folder/boot_clock.c", '-ldl');
	return "$folder/boot_clock.so";
}

# Returns a clock; { env } are the variables of a program that uses it. By default it is twenty times slower than the
# machine's, so that the five seconds of a request, and the time to connect, become minutes.
sub boot_clock
{
	my ($slowness) = @_;
	$slowness //= 20;
	$library //= compiled();
	my $clock = { file => PostgreSQL::Test::Utils::tempdir() . '/clock ' . ++$number };
	advance($clock, 0);
	$clock->{env} = { LD_PRELOAD => $library, BOOT_CLOCK => $clock->{file}, BOOT_CLOCK_SLOWNESS => $slowness,
		$slowness > 1 ? (PGCONNECT_TIMEOUT => 600) : () };
	return $clock;
}

# Returns the words of a command that runs the tool with a slow clock, for a test that need not move the clock.
my $slow;
sub slow_tool ()
{
	$slow //= boot_clock();
	return ('env', (map { "$_=$slow->{env}{$_}" } sort keys %{ $slow->{env} }), $tool);
}

# Moves the clock ahead by this many seconds. They replace those of an earlier call.
sub advance
{
	my ($clock, $seconds) = @_;
	append_to_file("$clock->{file}.new", "$seconds\n");
	rename "$clock->{file}.new", $clock->{file} or die "$clock->{file}: $!";
	return;
}

# Like launch(), but the program, and whatever it starts, uses this clock.
sub launch_by
{
	my ($clock, $process, @command) = @_;
	local %ENV = (%ENV, %{ $clock->{env} });
	return launch($process, @command);
}

1;
