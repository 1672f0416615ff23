# Perl's Redis, unchanged, with a running getid: `perl_redis.pl [check ...]`. See tests/client_matrix.rs.
use strict;
use warnings;
use Redis;

$| = 1;
my ($port, $tls_port, $password_port) = map { $ENV{"MATRIX_${_}PORT"} } ('', 'TLS_', 'PASSWORD_');
my $password = $ENV{MATRIX_PASSWORD};

sub check { my ($holds, $what) = @_; die "$what\n" unless $holds }

sub open_at { my ($at, %options) = @_; return Redis->new(server => "127.0.0.1:$at", %options) }

# IDs are integers of 64 bits: neither longer texts nor floating numbers.
sub ascending {
    my ($ids, $after) = (@_, -1);
    for my $id (@$ids) {
        check($id =~ /^\d+$/ && int($id) eq $id, "no integer: $id");
        check($id > $after, "$id after $after");
        $after = $id;
    }
}

# The library dies with the server's error text.
sub refused {
    my ($text, $call) = @_;
    check(!eval { $call->(); 1 }, "answered, not refused with $text");
    check(index($@, $text) >= 0, "other words: $@");
}

# Returns the replies and errors of a pipeline, one callback each.
sub piped {
    my ($client, @commands) = @_;
    my (@replies, @errors);
    for my $command (@commands) {
        my ($name, @words) = @$command;
        $client->$name(@words, sub { push @replies, $_[0]; push @errors, $_[1] });
    }
    $client->wait_all_responses;
    check(@replies == @commands, 'replies are missing');
    return \@replies, \@errors;
}

sub thousand {
    my ($client) = @_;
    my ($ids) = piped($client, map { ['getid'] } 1 .. 1000);
    ascending($ids);
    return $ids;
}

sub different { my %seen = map { $_ => 1 } @_; return scalar keys %seen }

my @checks = (
    connect => sub {
        my $client = open_at($port, name => 'matrix');
        $client->select(3);
        check($client->ping eq 'PONG', 'PING');
        check($client->echo('x') eq 'x', 'ECHO');
        check($client->client_getname eq 'matrix', 'CLIENT GETNAME');
        check($client->client_list =~ /name=matrix .* db=3/, 'CLIENT LIST');
        check($client->info->{redis_mode} eq 'standalone', 'INFO');
        check(exists $client->info('generator')->{ids_issued}, 'INFO generator');
        check({$client->config_get('port')}->{port} == $port, 'CONFIG GET');
        $client->quit;
    },
    getid => sub {
        # Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows.
        my $client = open_at($port);
        my @ids = map { $client->getid } 1 .. 1024;
        ascending(\@ids);
        check(different(map { $_ % 1024 } @ids) == 1024, 'lost digits');
    },
    mgetid => sub {
        my $client = open_at($port);
        my $last = $client->getid;
        my @many = $client->mgetid(100);
        check(@many == 100, 'not 100 IDs');
        ascending(\@many, $last);
    },
    error => sub {
        my $client = open_at($port);
        my $before = $client->client_id;
        refused('ERR parameters error! argv[1] = 101', sub { $client->mgetid(101) });
        refused('ERR value is not an integer or out of range', sub { $client->mgetid('x') });
        refused("ERR unknown command 'NOSUCH'", sub { $client->nosuch });
        ascending([$client->getid]);
        check($client->client_id == $before, 'the connection was not kept');
    },
    pipeline => sub {
        my $client = open_at($port);
        my $ids = thousand($client);
        # A failed command has an error in its place, and the others are answered.
        my ($replies, $errors) = piped($client, ['getid'], ['mgetid', 0], ['getid']);
        check($errors->[1] =~ /parameters error! argv\[1\] = 0/, "no error: $errors->[1]");
        ascending([@$replies[0, 2]], $ids->[-1]);
    },
    multi => sub {
        my $client = open_at($port);
        $client->multi(sub { });
        $client->getid(sub { }) for 1 .. 1000;
        my @ids = $client->exec;
        check(@ids == 1000, 'not 1000 replies');
        ascending(\@ids);
        $client->multi;
        $client->getid;
        # A command that cannot be queued aborts the transaction.
        refused('wrong number of arguments', sub { $client->mgetid });
        refused('EXECABORT', sub { $client->exec });
        ascending([$client->getid], $ids[-1]);
    },
    pool => sub {
        # Fifty processes with one connection each. No process starts before all are connected.
        my @children;
        for (1 .. 50) {
            pipe(my $ready_read, my $ready) or die;
            pipe(my $go, my $go_write) or die;
            pipe(my $result, my $result_write) or die;
            my $pid = fork() // die "fork: $!";
            if ($pid == 0) {
                my $client = open_at($port);
                $client->ping;
                syswrite $ready, 'r';
                sysread $go, my $byte, 1;
                my @ids = map { $client->getid } 1 .. 400;
                print {$result_write} "@ids\n";
                close $result_write;
                require POSIX;
                POSIX::_exit(0);
            }
            close $result_write;
            push @children, [$pid, $ready_read, $go_write, $result];
        }
        for (@children) { check(sysread($_->[1], my $byte, 1) == 1, 'not connected') }
        for (@children) { syswrite $_->[2], 'g' }
        my @all;
        for my $child (@children) {
            my $result = $child->[3];
            my @ids = split ' ', <$result>;
            check(@ids == 400, 'not 400 IDs');
            ascending(\@ids);
            push @all, @ids;
            waitpid $child->[0], 0;
            check($? == 0, 'a process failed');
        }
        check(different(@all) == 20_000, 'an ID came twice');
    },
    reconnect => sub {
        # Without `reconnect` the library reports a lost connection, and reconnects on request.
        my ($client, $killer) = (open_at($port), open_at($port));
        my $before = $client->client_id;
        my $last = $client->getid;
        check($killer->client_kill('ID', $before) == 1, 'CLIENT KILL');
        refused('server', sub { $client->getid });
        $client->connect;
        ascending([$client->getid], $last);
        check($client->client_id != $before, 'the same connection');
        # With `reconnect` it reconnects automatically.
        my $keeps = open_at($port, reconnect => 2, every => 10_000);
        $before = $keeps->client_id;
        check($killer->client_kill('ID', $before) == 1, 'CLIENT KILL');
        ascending([$keeps->getid], $last);
        check($keeps->client_id != $before, 'the same connection');
    },
    password => sub {
        refused('WRONGPASS', sub { open_at($password_port, password => 'wrong') });
        refused('WRONGPASS', sub { open_at($password_port, username => 'default', password => 'wrong') });
        refused('NOAUTH', sub { open_at($password_port)->getid });
        ascending([open_at($password_port, password => $password)->getid]);
        ascending([open_at($password_port, username => 'default', password => $password)->getid]);
    },
    tls => sub {
        refused('Could not connect', sub { open_at($tls_port, ssl => 1) });
        check($IO::Socket::SSL::SSL_ERROR =~ /certificate verify failed/, "other words: $IO::Socket::SSL::SSL_ERROR");
        # The library has no option for a file of authorities, so they are set for the whole program.
        IO::Socket::SSL::set_defaults(SSL_ca_file => $ENV{MATRIX_CA});
        thousand(open_at($tls_port, ssl => 1));
    },
);

print "version Redis.pm $Redis::VERSION\n";
my %checks = @checks;
my @names = @ARGV ? @ARGV : @checks[grep { $_ % 2 == 0 } 0 .. $#checks];
for my $name (@names) {
    $checks{$name}->();
    print "ok $name\n";
}
