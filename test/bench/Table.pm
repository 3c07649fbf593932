# SQL that creates, fills and changes the lock tables.
package Table;

use strict;
use warnings;
use Sides;

# Everything that the sides on PostgreSQL need in a database.
sub setup
{
	my %done;
	return join '', map {
		my $schema = Sides::schema($_);
		$done{$schema}++ ? ''
			: ($schema eq 'public' ? '' : "CREATE SCHEMA $schema; ") . "SET search_path = $schema;\n$_->{setup}\n"
	} grep { !$_->{redis} } @Sides::sides;
}

sub table
{
	my ($side) = @_;
	return Sides::schema($side) . '.shedlock';
}

my %state = (
	held => "lock_until = timezone('utc', now()) + interval '1 day'",
	free => "lock_until = timezone('utc', now()) - interval '1 second'",
);

# Empties the table, fills it with the names 1 to N, all held by another session or all free, and analyzes it for the
# planner.
sub fill
{
	my ($side, $names, $state) = @_;
	my $table = table($side);
	my ($until) = $state{$state} =~ /= (.*)/;
	return ("TRUNCATE $table",
		"INSERT INTO $table (name, lock_until, locked_at, locked_by) SELECT n, $until, "
			. "timezone('utc', now()) - interval '1 minute', 'job\@elsewhere#1' FROM generate_series(1, $names) n",
		"VACUUM ANALYZE $table");
}

# Makes all names held by another session, or free.
sub turn
{
	my ($side, $state) = @_;
	return 'UPDATE ' . table($side) . " SET $state{$state}, locked_by = 'job\@elsewhere#1'";
}

# A procedure that creates this many new versions of a name's row, each in its own transaction. It finds the row by its
# ctid, not by its name, because under an old snapshot a search by name becomes slower and slower.
sub pile
{
	my ($side) = @_;
	my $table = table($side);
	return <<"SQL";
CREATE PROCEDURE ${\Sides::schema($side)}.pile(p_name text, p_versions int) LANGUAGE plpgsql AS \$\$
DECLARE newest tid;
BEGIN
	SELECT ctid INTO newest FROM $table WHERE name = p_name;
	FOR i IN 1..p_versions LOOP
		UPDATE $table SET lock_until = lock_until WHERE ctid = newest RETURNING ctid INTO newest;
		COMMIT;
	END LOOP;
END \$\$
SQL
}

1;
