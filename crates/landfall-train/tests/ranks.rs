//! Worlds over TCP: threads are the ranks, and everything that is sent goes through real sockets.

use landfall::{Engine, RankFault, World, ops};
use landfall_train::ranks::{Launch, LaunchError, Refusal, Secret};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A limit that no test reaches where all goes well.
const LONG: Duration = Duration::from_secs(20);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A port at which nobody listens.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn launch(rank: usize, size: usize, port: u16) -> Launch {
    let (address, job) = ("127.0.0.1".to_owned(), "test".to_owned());
    Launch { rank, local_rank: rank, size, address, port, job, secret: None }
}

/// The launches of all ranks of a world.
fn launches(size: usize) -> Vec<Launch> {
    let port = port();
    (0..size).map(|rank| launch(rank, size, port)).collect()
}

/// What each of some ranks does, in their order.
fn run<T: Send>(launches: &[Launch], rank: impl Fn(&Launch) -> T + Sync) -> Vec<T> {
    let rank = &rank;
    std::thread::scope(|s| {
        let all: Vec<_> = launches.iter().map(|launch| s.spawn(move || rank(launch))).collect();
        all.into_iter().map(|r| r.join().expect("a rank")).collect()
    })
}

/// What each rank of a world does with its place.
fn worlds<T: Send>(size: usize, limit: Duration, rank: impl Fn(World) -> T + Sync) -> Vec<T> {
    run(&launches(size), |launch| rank(launch.join(limit).expect("a world")))
}

/// How each of some ranks fails to join.
fn failures(launches: &[Launch], limit: Duration) -> Vec<LaunchError> {
    run(launches, |launch| launch.join(limit).expect_err("no world"))
}

fn bytes(rank: usize, call: usize) -> Vec<u8> {
    const SIZES: [usize; 11] = [0, 1, 3, 64, 1000, 4096, 65_510, 65_536, 70_001, 200_000, 1 << 20];
    let size = SIZES[(call * 3 + rank * 5) % SIZES.len()];
    (0..size).map(|i| (i * 7 + rank * 31 + call) as u8).collect()
}

#[test]
fn all_parts_come_to_all() {
    for size in [2, 3, 8] {
        worlds(size, LONG, |world| {
            assert_eq!(world.size(), size);
            for call in 0..50 {
                let parts = world.exchange("parts", &bytes(world.rank(), call)).expect("all parts");
                assert_eq!(parts.len(), size);
                for (rank, part) in parts.iter().enumerate() {
                    assert!(**part == bytes(rank, call), "rank {rank}, call {call}, {} bytes", part.len());
                }
            }
        });
    }
}

/// The sum over all ranks of numbers whose rounding depends on their order.
fn sum(world: World) -> Vec<u32> {
    let rank = world.rank();
    let engine = Engine::cpu_with_threads(1).expect("an engine");
    let data: Vec<f32> = (0..1000).map(|i| ((i * 37 + rank * 101) % 997) as f32 / 7.0).collect();
    let x = engine.tensor([1000], &data).expect("a tensor");
    engine.join(world).expect("the engine is in no world yet");
    let sum = ops::AllReduce { reduction: ops::Reduction::Sum };
    let sum: Vec<f32> = engine.eval(&sum, &[x.view()]).expect("a sum").read().expect("numbers");
    sum.into_iter().map(f32::to_bits).collect()
}

#[test]
fn an_all_reduce_is_that_of_threads() {
    let threads: Vec<_> = std::thread::scope(|s| {
        let ranks: Vec<_> = World::threads(3, LONG).into_iter().map(|w| s.spawn(move || sum(w))).collect();
        ranks.into_iter().map(|r| r.join().expect("a rank")).collect()
    });
    assert_eq!(worlds(3, LONG, sum), threads);
}

#[test]
fn another_call_is_a_fault_of_all() {
    let faults = worlds(3, LONG, |world| {
        world.exchange("first", &[]).expect("all make the same call");
        let what = if world.rank() == 1 { "mean" } else { "sum" };
        let fault = world.exchange(what, &[1]).expect_err("not the same call");
        // It is final.
        assert_eq!(world.exchange("sum", &[1]).expect_err("the same fault"), fault);
        fault
    });
    assert!(faults.iter().all(|f| *f == faults[0]), "{faults:?}");
    let RankFault::Differs { rank, call, other, other_call } = &faults[0] else { panic!("{}", faults[0]) };
    let calls =
        if *rank == 1 { ("mean (call 2)", "sum (call 2)") } else { ("sum (call 2)", "mean (call 2)") };
    assert_eq!((call.as_str(), other_call.as_str()), calls);
    assert!((*rank == 1) != (*other == 1), "{rank} {other}");
}

/// The faults of ranks when rank `ended` of 4 ends while rank `slow` computes; the others have theirs at once.
fn ended(ended: usize, slow: usize) {
    let times = worlds(4, LONG, |world| {
        let rank = world.rank();
        world.exchange("first", &[]).expect("all are there");
        if rank == ended {
            sleep(ms(100));
            return None;
        }
        if rank == slow {
            sleep(ms(1500));
        }
        let began = Instant::now();
        let fault = world.exchange("second", &[]).expect_err("a rank ended");
        Some((fault, began.elapsed()))
    });
    for (fault, time) in times.into_iter().flatten() {
        let RankFault::Ended { rank, call, .. } = &fault else { panic!("{fault}") };
        assert_eq!((*rank, call.as_str()), (ended, "second (call 2)"));
        assert!(time < ms(1000), "{time:?}: {fault}");
    }
}

#[test]
fn an_end_is_noticed_while_another_is_slow() {
    std::thread::scope(|s| {
        // The slow one may be the one through which everything goes, and so may the one that ends.
        for (end, slow) in [(1, 3), (2, 0), (0, 3)] {
            s.spawn(move || ended(end, slow));
        }
    });
}

#[test]
fn who_is_late_is_named() {
    let limit = ms(300);
    let late = |size: usize, late: &[usize]| {
        let faults = worlds(size, limit, |world| {
            if late.contains(&world.rank()) {
                sleep(ms(900));
            }
            let began = Instant::now();
            let fault = world.exchange("sum", &[1]).expect_err("a rank is late");
            (fault, began.elapsed(), late.contains(&world.rank()))
        });
        for (fault, time, is_late) in faults {
            let call = "sum (call 1)".to_owned();
            assert_eq!(fault, RankFault::Late { missing: late.to_vec(), call, limit });
            // Who is late hears of it as soon as it comes.
            let expected = if is_late { Duration::ZERO..limit } else { ms(200)..limit + ms(2000) };
            assert!(expected.contains(&time), "{time:?}");
        }
    };
    std::thread::scope(|s| {
        for ranks in [&[2][..], &[1, 3], &[0, 2]] {
            s.spawn(move || late(4, ranks));
        }
    });
}

#[test]
fn why_a_rank_gives_up_comes_to_all() {
    for gives_up in [0, 2] {
        let faults = worlds(3, LONG, |world| {
            if world.rank() == gives_up {
                sleep(ms(50));
                world.abort("the disk is full: /data");
            }
            world.exchange("sum", &[]).expect_err("a rank gave up")
        });
        for fault in &faults {
            let RankFault::Ended { rank, why, .. } = fault else { panic!("{fault}") };
            assert_eq!((*rank, why.as_str()), (gives_up, "the disk is full: /data"));
        }
    }
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let secret = |text: &str| Some(Secret::from(text.to_owned()));
    let mut all = launches(3);
    all.iter_mut().for_each(|launch| launch.secret = secret("the secret"));
    run(&all, |launch| launch.join(LONG).expect("a world").exchange("sum", &[]).expect("all know it"));
    for other in [secret("another"), None] {
        let mut all = launches(3);
        all.iter_mut().for_each(|launch| launch.secret = secret("the secret"));
        all[2].secret = other;
        let errors = failures(&all, ms(500));
        let texts: Vec<_> = errors.iter().map(LaunchError::to_string).collect();
        assert!(matches!(&errors[0], LaunchError::Absent { missing, .. } if *missing == [2]), "{}", texts[0]);
        assert!(texts[0].contains("says that it is rank 2, has another LANDFALL_SECRET"), "{}", texts[0]);
        assert!(matches!(&errors[1], LaunchError::GaveUp { why } if *why == texts[0]), "{}", texts[1]);
        assert!(matches!(errors[2], LaunchError::Secret { .. }), "{}", texts[2]);
        assert!(texts[2].contains("LANDFALL_SECRET must be the same for all ranks"), "{}", texts[2]);
        assert!(!texts.concat().contains("the secret;") && !texts.concat().contains("another\""));
    }
}

#[test]
fn a_rank_of_another_job_is_refused() {
    let mut all = launches(2);
    all[1].job = "yesterday".to_owned();
    let errors = failures(&all, ms(300));
    assert!(matches!(errors[0], LaunchError::Absent { .. }), "{}", errors[0]);
    assert!(errors[1].to_string().contains("this rank is of job \"yesterday\""), "{}", errors[1]);
}

#[test]
fn a_rank_that_comes_twice_is_refused() {
    let mut all = launches(3);
    all[2].rank = 1;
    let errors = failures(&all, LONG);
    let twice = Refusal::Twice { rank: 1, size: 3 };
    let refused = |e: &LaunchError| matches!(e, LaunchError::Refused(refusal) if *refusal == twice);
    assert!(refused(&errors[0]), "{}", errors[0]);
    // Of the two, one was let in before.
    let (second, first) = if refused(&errors[1]) { (1, 2) } else { (2, 1) };
    assert!(refused(&errors[second]), "{}", errors[second]);
    assert!(
        matches!(&errors[first], LaunchError::GaveUp { why } if *why == twice.to_string()),
        "{}",
        errors[first]
    );
}

#[test]
fn a_rank_of_another_number_is_refused() {
    let mut all = launches(2);
    all[1].size = 3;
    for error in failures(&all, LONG) {
        let expected = "the number of ranks differs: rank 1 has 3, rank 0 has 2; start all ranks alike";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn strangers_delay_nobody() {
    let all = launches(3);
    let port = all[0].port;
    let (listens, silent) = (Barrier::new(3), Mutex::new(Vec::new()));
    let began = Instant::now();
    run(&all, |launch| {
        if launch.rank > 0 {
            // Both at once, so that strangers are there before and between the ranks.
            listens.wait();
            for i in 0..20 {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens");
                let said: &[u8] = [b"GET / HTTP/1.1\r\n\r\n", &b"LANDFALL"[..], b"", b"\x16\x03\x01"][i % 4];
                // A stranger may be gone already.
                let _ = stream.write_all(said);
                if i % 3 > 0 {
                    silent.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
                }
            }
        } else {
            std::thread::scope(|s| {
                s.spawn(|| {
                    // Until rank 0 listens. The attempt itself is one more stranger.
                    while TcpStream::connect(("127.0.0.1", port)).is_err() {
                        sleep(ms(5));
                    }
                    listens.wait();
                });
                launch.join(LONG).expect("a world").exchange("sum", &[1]).expect("all ranks");
            });
            return;
        }
        launch.join(LONG).expect("a world").exchange("sum", &[1]).expect("all ranks");
    });
    assert!(began.elapsed() < ms(3000), "{:?}", began.elapsed());
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let mut all = launches(5);
    let at = format!("127.0.0.1:{}", all[0].port);
    all.retain(|launch| [0, 2].contains(&launch.rank));
    let errors = failures(&all, ms(400));
    let expected = format!(
        "ranks 1, 3, 4 did not come to rank 0 at {at} within 0.4 s; see their logs, check that they reach this address, or allow \
         more time"
    );
    assert_eq!(errors[0].to_string(), expected);
    assert_eq!(errors[1].to_string(), format!("rank 0 gave up before all ranks had come: {expected}"));
}

#[test]
fn a_rank_0_that_does_not_come_is_named() {
    let began = Instant::now();
    let error = launch(1, 2, port()).join(ms(300)).expect_err("nobody listens").to_string();
    assert!(error.starts_with("rank 0 was not reached at 127.0.0.1:"), "{error}");
    assert!(error.contains("within 0.3 s (Connection refused"), "{error}");
    assert!((ms(300)..ms(2000)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[test]
fn a_late_rank_0_is_waited_for() {
    let all = launches(2);
    run(&all, |launch| {
        if launch.rank == 0 {
            sleep(ms(300));
        }
        launch.join(LONG).expect("a world").exchange("sum", &[1]).expect("both ranks");
    });
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let error = launch(0, 2, port).join(ms(300)).expect_err("it is taken").to_string();
    assert!(error.starts_with(&format!("rank 0 cannot listen at 127.0.0.1:{port}: ")), "{error}");
    assert!(error.contains("LANDFALL_PORT"), "{error}");
    // A world of one needs none.
    let single = launch(0, 1, port).join(Duration::ZERO).expect("a world");
    assert!(single.is_single());
}

#[test]
fn a_launch_that_cannot_be_is_named() {
    for (rank, size) in [(0, 0), (2, 2), (7, 3)] {
        let error = launch(rank, size, 1).join(ms(1)).expect_err("no such rank");
        assert!(matches!(error, LaunchError::Variable { .. }), "{error}");
    }
}

/// A rank in a process of its own, which `a_process_that_is_killed_is_missed` starts; what it gets it prints.
#[test]
#[ignore = "a process of another test, or of a launcher"]
fn process() {
    let Some(launch) = Launch::from_environment().expect("variables") else {
        return eprintln!("skipped: no launcher started this");
    };
    let world = launch.join(LONG).expect("a world");
    println!("rank {} of {} is there", world.rank(), world.size());
    let fault = loop {
        match world.exchange("tick", &[world.rank() as u8]) {
            Ok(parts) => assert!(parts.iter().enumerate().all(|(rank, part)| **part == [rank as u8])),
            Err(fault) => break fault,
        }
        sleep(ms(1));
    };
    println!("fault: {fault}");
}

/// Reads what a process prints, up to the end of a line with a text.
#[expect(clippy::unbuffered_bytes, reason = "a buffer would take what is for the next who reads")]
fn until(process: &mut Child, text: &str) {
    let out = process.stdout.as_mut().expect("its output");
    let mut line = String::new();
    for byte in out.bytes() {
        match byte.expect("text") {
            b'\n' if line.contains(text) => return,
            b'\n' => line.clear(),
            byte => line.push(char::from(byte)),
        }
    }
    panic!("it ended with {line:?}");
}

#[test]
fn a_process_that_is_killed_is_missed() {
    let port = port().to_string();
    let start = |rank: usize| {
        Command::new(std::env::current_exe().expect("this test"))
            .args(["process", "--exact", "--ignored", "--nocapture"])
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("LANDFALL_PORT", &port)
            .envs([("WORLD_SIZE", "3"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let mut all = [0, 1, 2].map(start);
    for (rank, process) in all.iter_mut().enumerate() {
        until(process, &format!("rank {rank} of 3 is there"));
    }
    all[1].kill().expect("a process");
    let killed = Instant::now();
    for rank in [0, 2] {
        let mut rest = String::new();
        all[rank].stdout.take().expect("its output").read_to_string(&mut rest).expect("text");
        let fault = rest.lines().find(|line| line.starts_with("fault: ")).expect("a fault");
        assert!(fault.starts_with("fault: rank 1 ended before "), "{fault}");
    }
    assert!(killed.elapsed() < ms(1000), "{:?}", killed.elapsed());
    for mut process in all {
        process.wait().expect("an end");
    }
}
