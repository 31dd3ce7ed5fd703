//! What a launcher says of a rank.

use super::{LaunchError, hosts};
use std::fmt;
use std::str::FromStr;

/// Variables that torchrun sets for each rank.
const TORCHRUN: [&str; 5] = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
/// Variables that Slurm sets for each task of a step.
const SLURM: [&str; 4] = ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID"];
/// Ranks, at most: each keeps a place for each other one.
const MOST: usize = 1 << 16;
/// From here on Slurm's numbers of steps have meanings of their own: a batch script, an interactive shell. Those are no launch of
/// several programs.
const RESERVED_STEPS: u64 = 0xffff_fff0;

/// A secret, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// One of the programs that a launcher started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// This rank, from 0.
    pub rank: usize,
    /// Its number among those on its machine, from 0.
    pub local_rank: usize,
    /// The number of ranks, on all machines together.
    pub size: usize,
    /// The machine of rank 0: a host name or an address.
    pub address: String,
    /// The port at which rank 0 listens.
    pub port: u16,
    /// The launcher's name for all programs that it started together; may be empty. Without a secret it tells jobs apart.
    pub job: String,
    /// What every rank must know. It keeps others out, while a job's name may be known to anybody.
    pub secret: Option<Secret>,
}

impl Launch {
    /// What the variables of this process say, as [`Launch::from_variables`].
    ///
    /// # Errors
    /// As [`Launch::from_variables`].
    pub fn from_environment() -> Result<Option<Self>, LaunchError> {
        // What is no text is kept, with replacement characters, so that it counts as set and is named in an error.
        Self::from_variables(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    /// What a launcher's variables say of this program, or [`None`] if no launcher started it.
    ///
    /// | | torchrun | `srun` of Slurm |
    /// |---|---|---|
    /// | rank | `RANK` | `SLURM_PROCID` |
    /// | local rank | `LOCAL_RANK` | `SLURM_LOCALID` |
    /// | size | `WORLD_SIZE` | `SLURM_STEP_NUM_TASKS`, else `SLURM_NTASKS` |
    /// | address | `MASTER_ADDR` | `MASTER_ADDR`, else the first host of `SLURM_STEP_NODELIST`, else of `SLURM_JOB_NODELIST` |
    /// | port | `MASTER_PORT` | `MASTER_PORT`, else 20000 + (job + 100 · step) mod 10000 |
    /// | job | `TORCHELASTIC_RUN_ID` | `SLURM_JOB_ID`.`SLURM_STEP_ID` |
    ///
    /// torchrun's have precedence. Where its agent itself listens at `MASTER_PORT` (`TORCHELASTIC_USE_AGENT_STORE` is `True`), the
    /// port is the next one. `LANDFALL_PORT` is the port in all cases, `LANDFALL_SECRET` the secret. Slurm's count inside of a step
    /// only, which `srun` starts: the script of `sbatch` and the shell of `salloc` are one program, for which no others were started.
    /// `SLURM_LAUNCH_NODE_IPADDR` is not used, because it is where `srun` was called, which may be a login node.
    ///
    /// ```
    /// use landfall_train::ranks::Launch;
    /// let variables = [
    ///     ("RANK", "1"),
    ///     ("LOCAL_RANK", "1"),
    ///     ("WORLD_SIZE", "2"),
    ///     ("MASTER_ADDR", "localhost"),
    ///     ("MASTER_PORT", "29500"),
    /// ];
    /// let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    /// let launch = Launch::from_variables(get)?.expect("a launcher's variables");
    /// assert_eq!((launch.rank, launch.size, launch.port), (1, 2, 29500));
    /// assert_eq!(Launch::from_variables(|_| None)?, None);
    /// # Ok::<(), landfall_train::ranks::LaunchError>(())
    /// ```
    ///
    /// # Errors
    /// [`LaunchError::Partial`] for a part of a launcher's variables, [`LaunchError::Variable`] for a value that it cannot have.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, LaunchError> {
        let variables = Variables { get: &get };
        let launch = if TORCHRUN.iter().all(|&v| variables.is_set(v)) {
            variables.torchrun()?
        // Scripts for Slurm set MASTER_ADDR and MASTER_PORT, which alone are no sign of torchrun in a step.
        } else if TORCHRUN[..3].iter().any(|&v| variables.is_set(v)) {
            return Err(variables.partial("torchrun", &TORCHRUN));
        } else if variables.is_in_step() {
            variables.slurm()?
        } else if TORCHRUN.iter().any(|&v| variables.is_set(v)) {
            return Err(variables.partial("torchrun", &TORCHRUN));
        } else {
            return Ok(None);
        };
        launch.check()?;
        Ok(Some(launch))
    }

    /// Checks what no single field says.
    pub(super) fn check(&self) -> Result<(), LaunchError> {
        let Self { rank, local_rank, size, .. } = *self;
        if size == 0 {
            return Err(broken("the number of ranks", "0", "there is at least one rank"));
        }
        if size > MOST {
            let rule = format!("at most {MOST} ranks train together");
            return Err(broken("the number of ranks", &size.to_string(), &rule));
        }
        for (variable, value) in [("the rank", rank), ("the local rank", local_rank)] {
            if value >= size {
                let rule = format!("it must be below the number of ranks, which is {size}");
                return Err(broken(variable, &value.to_string(), &rule));
            }
        }
        if self.address.trim().is_empty() {
            return Err(broken(
                "the address of rank 0",
                &self.address,
                "it must be a host name or an address",
            ));
        }
        Ok(())
    }
}

fn broken(variable: &'static str, value: &str, rule: &str) -> LaunchError {
    LaunchError::Variable { variable, value: value.to_owned(), rule: rule.to_owned() }
}

/// Where variables come from.
struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    fn is_set(&self, name: &str) -> bool {
        (self.get)(name).is_some()
    }

    fn text(&self, name: &str) -> String {
        (self.get)(name).unwrap_or_default()
    }

    /// The number in a variable that is set.
    fn number<T: FromStr>(&self, name: &'static str, rule: &str) -> Result<T, LaunchError> {
        let text = self.text(name);
        text.trim().parse().map_err(|_| broken(name, &text, rule))
    }

    /// A port in a variable, if it is set.
    fn port(&self, name: &'static str) -> Result<Option<u16>, LaunchError> {
        let rule = "a port is a whole number from 1 to 65535";
        if !self.is_set(name) {
            return Ok(None);
        }
        match self.number(name, rule)? {
            0 => Err(broken(name, "0", rule)),
            port => Ok(Some(port)),
        }
    }

    fn secret(&self) -> Result<Option<Secret>, LaunchError> {
        let secret = (self.get)("LANDFALL_SECRET");
        if secret.as_ref().is_some_and(|s| s.trim().is_empty()) {
            return Err(broken(
                "LANDFALL_SECRET",
                "",
                "an empty text keeps nobody out; set a long random one, or none",
            ));
        }
        Ok(secret.map(Secret))
    }

    /// The numbers of a rank.
    fn place(&self, [rank, local, size]: [&'static str; 3]) -> Result<(usize, usize, usize), LaunchError> {
        let of = |name| self.number(name, "it must be a whole number from 0");
        let count: usize = self.number(size, "it must be a whole number from 1")?;
        if count == 0 {
            return Err(broken(size, "0", "there is at least one rank"));
        }
        let below = |name: &'static str| {
            let value: usize = of(name)?;
            if value < count {
                return Ok(value);
            }
            Err(broken(name, &value.to_string(), &format!("it must be below {size}, which is {count}")))
        };
        Ok((below(rank)?, below(local)?, count))
    }

    fn address(&self) -> Result<Option<String>, LaunchError> {
        let Some(address) = (self.get)("MASTER_ADDR") else { return Ok(None) };
        if address.trim().is_empty() {
            return Err(broken("MASTER_ADDR", &address, "it must be a host name or an address"));
        }
        Ok(Some(address.trim().to_owned()))
    }

    fn torchrun(&self) -> Result<Launch, LaunchError> {
        let (rank, local_rank, size) = self.place(["RANK", "LOCAL_RANK", "WORLD_SIZE"])?;
        let master = self.port("MASTER_PORT")?.unwrap_or_default();
        let agent = self.text("TORCHELASTIC_USE_AGENT_STORE").trim().eq_ignore_ascii_case("true");
        let port = match self.port("LANDFALL_PORT")? {
            Some(port) => port,
            None if agent => master.checked_add(1).ok_or_else(|| {
                let rule =
                    "torchrun listens there, and there is no next port for the ranks; set LANDFALL_PORT";
                broken("MASTER_PORT", &master.to_string(), rule)
            })?,
            None => master,
        };
        let address = self.address()?.unwrap_or_default();
        let (job, secret) = (self.text("TORCHELASTIC_RUN_ID"), self.secret()?);
        Ok(Launch { rank, local_rank, size, address, port, job, secret })
    }

    /// Whether `srun` started this program.
    fn is_in_step(&self) -> bool {
        (self.get)("SLURM_STEP_ID")
            .is_some_and(|id| id.trim().parse().is_ok_and(|id: u64| id < RESERVED_STEPS))
    }

    fn slurm(&self) -> Result<Launch, LaunchError> {
        // The shell of an allocation may pass its own SLURM_NTASKS on to a step with fewer tasks.
        let size = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"].into_iter().find(|&v| self.is_set(v));
        let needed = SLURM.into_iter().filter(|&v| v != "SLURM_NTASKS");
        let (Some(size), true) = (size, needed.into_iter().all(|v| self.is_set(v))) else {
            return Err(self.partial("srun", &SLURM));
        };
        let (rank, local_rank, size) = self.place(["SLURM_PROCID", "SLURM_LOCALID", size])?;
        let whole = "it must be a whole number";
        let (job, step): (u64, u64) =
            (self.number("SLURM_JOB_ID", whole)?, self.number("SLURM_STEP_ID", whole)?);
        let derived = 20_000 + (job % 10_000 + 100 * (step % 100)) % 10_000;
        let port = match (self.port("LANDFALL_PORT")?, self.port("MASTER_PORT")?) {
            (Some(port), _) | (None, Some(port)) => port,
            (None, None) => u16::try_from(derived).unwrap_or(20_000),
        };
        let address = match self.address()? {
            Some(address) => address,
            None => self.first_host()?,
        };
        Ok(Launch {
            rank,
            local_rank,
            size,
            address,
            port,
            job: format!("{job}.{step}"),
            secret: self.secret()?,
        })
    }

    /// The machine of Slurm's task 0: distributions of tasks begin with the first host of the step.
    fn first_host(&self) -> Result<String, LaunchError> {
        let Some(name) = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"].into_iter().find(|&v| self.is_set(v))
        else {
            return Err(self.partial("srun", &["SLURM_STEP_ID", "SLURM_STEP_NODELIST"]));
        };
        let list = self.text(name);
        let rule =
            "it must be a list of hosts, such as node[01-03,07]; or set MASTER_ADDR to the machine of rank 0";
        hosts::first(&list).ok_or_else(|| broken(name, &list, rule))
    }

    fn partial(&self, launcher: &'static str, all: &[&'static str]) -> LaunchError {
        let (present, missing) = all.iter().partition(|&&v| self.is_set(v));
        LaunchError::Partial { launcher, present, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::{Launch, LaunchError, Secret};

    type Launched = Result<Option<Launch>, LaunchError>;

    /// A launch of variables `NAME=value`, separated by spaces; later ones replace earlier ones, `-NAME` removes one.
    fn launch(variables: &str) -> Launched {
        Launch::from_variables(|name| {
            let of = |word: &str| match word.split_once('=') {
                Some((n, value)) => (n == name).then(|| Some(value.to_owned())),
                None => (word.strip_prefix('-') == Some(name)).then_some(None),
            };
            variables.split(' ').rev().find_map(of).flatten()
        })
    }

    const TORCHRUN: &str = "RANK=3 LOCAL_RANK=1 WORLD_SIZE=4 MASTER_ADDR=a.example MASTER_PORT=29500";
    const SLURM: &str = "SLURM_PROCID=5 SLURM_LOCALID=2 SLURM_NTASKS=6 SLURM_JOB_ID=1234567 SLURM_STEP_ID=2 \
                         SLURM_JOB_NODELIST=n[01-04] SLURM_STEP_NODELIST=n[03-04]";

    fn torchrun(more: &str) -> Launched {
        launch(&format!("{TORCHRUN} {more}"))
    }

    fn slurm(more: &str) -> Launched {
        launch(&format!("{SLURM} {more}"))
    }

    fn found(launch: Launched) -> Launch {
        launch.expect("a launch").expect("a launcher")
    }

    fn text(launch: Launched) -> String {
        launch.expect_err("an error").to_string()
    }

    #[test]
    fn no_launcher_is_no_launch() {
        for variables in ["", "HOME=/root", "SLURM_JOB_ID=7", "LANDFALL_PORT=5000", "TORCHELASTIC_RUN_ID=x"] {
            assert_eq!(launch(variables).expect("no error"), None, "{variables}");
        }
    }

    #[test]
    fn torchrun_says_all() {
        let expected = Launch {
            rank: 3,
            local_rank: 1,
            size: 4,
            address: "a.example".to_owned(),
            port: 29500,
            job: String::new(),
            secret: None,
        };
        assert_eq!(found(torchrun("")), expected);
        assert_eq!(found(torchrun("TORCHELASTIC_RUN_ID=abc")).job, "abc");
        let one = "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1";
        assert_eq!(found(torchrun(one)).size, 1);
    }

    #[test]
    fn torchrun_has_precedence_over_slurm() {
        let both = found(launch(&format!("{SLURM} {TORCHRUN}")));
        assert_eq!((both.rank, both.size, both.port), (3, 4, 29500));
        assert_eq!(both.job, "");
    }

    #[test]
    fn ports() {
        for (variables, port) in [
            ("TORCHELASTIC_USE_AGENT_STORE=True", 29501),
            ("TORCHELASTIC_USE_AGENT_STORE=False", 29500),
            ("TORCHELASTIC_USE_AGENT_STORE=True LANDFALL_PORT=4000", 4000),
            ("TORCHELASTIC_USE_AGENT_STORE=True MASTER_PORT=65535 LANDFALL_PORT=4000", 4000),
            ("LANDFALL_PORT=4000", 4000),
        ] {
            assert_eq!(found(torchrun(variables)).port, port, "{variables}");
        }
        for (variables, port) in [
            ("", 20_000 + 4567 + 200),
            ("SLURM_JOB_ID=0 SLURM_STEP_ID=0", 20_000),
            ("SLURM_JOB_ID=9999 SLURM_STEP_ID=1", 20_099),
            ("SLURM_JOB_ID=18446744073709551615 SLURM_STEP_ID=4294967000", 21_615),
            ("MASTER_PORT=6000", 6000),
            ("MASTER_PORT=6000 LANDFALL_PORT=4000", 4000),
            ("LANDFALL_PORT=4000", 4000),
        ] {
            assert_eq!(found(slurm(variables)).port, port, "{variables}");
        }
    }

    #[test]
    fn slurm_says_all() {
        let launch = found(slurm(""));
        assert_eq!((launch.rank, launch.local_rank, launch.size), (5, 2, 6));
        assert_eq!((launch.address.as_str(), launch.job.as_str()), ("n03", "1234567.2"));
        assert_eq!(found(slurm("-SLURM_STEP_NODELIST")).address, "n01");
        assert_eq!(found(slurm("MASTER_ADDR=10.0.0.9")).address, "10.0.0.9");
        // The node where srun was called may be a login node.
        assert_eq!(found(slurm("SLURM_LAUNCH_NODE_IPADDR=10.0.0.1")).address, "n03");
        // The step's number of tasks, not the allocation's.
        assert_eq!(found(slurm("SLURM_NTASKS=64 SLURM_STEP_NUM_TASKS=6")).size, 6);
        assert_eq!(found(slurm("-SLURM_NTASKS SLURM_STEP_NUM_TASKS=6")).size, 6);
    }

    #[test]
    fn slurm_counts_in_a_step_only() {
        assert_eq!(slurm("-SLURM_STEP_ID").expect("a batch script"), None);
        // The numbers that Slurm has for a batch script and for the shell of salloc.
        for step in ["4294967291", "4294967290"] {
            assert_eq!(slurm(&format!("SLURM_STEP_ID={step}")).expect("no step"), None);
        }
    }

    #[test]
    fn a_part_of_the_variables_is_an_error() {
        let expected = "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, but of these only RANK, WORLD_SIZE \
                        are set; set all or none";
        assert_eq!(text(launch("RANK=0 WORLD_SIZE=2")), expected);
        assert!(text(launch("MASTER_ADDR=a")).contains("only MASTER_ADDR is set"));
        // In a step of Slurm too: which of both launched it cannot be known.
        assert!(text(slurm("RANK=0")).contains("only RANK is set"));
        let expected = "srun sets SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_ID, SLURM_LOCALID, but of these only SLURM_PROCID, \
                        SLURM_NTASKS, SLURM_JOB_ID are set; set all or none";
        assert_eq!(text(slurm("-SLURM_LOCALID")), expected);
        assert!(text(slurm("-SLURM_NTASKS")).contains("SLURM_NTASKS"));
        let none = text(slurm("-SLURM_STEP_NODELIST -SLURM_JOB_NODELIST"));
        assert!(none.contains("SLURM_STEP_NODELIST"), "{none}");
    }

    #[test]
    fn values_that_cannot_be() {
        for (variables, error) in [
            ("RANK=x", "RANK is \"x\", but it must be a whole number from 0"),
            ("RANK=-1", "RANK is \"-1\", but it must be a whole number from 0"),
            ("RANK=", "RANK is \"\", but it must be a whole number from 0"),
            ("RANK=4", "RANK is \"4\", but it must be below WORLD_SIZE, which is 4"),
            ("LOCAL_RANK=9", "LOCAL_RANK is \"9\", but it must be below WORLD_SIZE, which is 4"),
            ("WORLD_SIZE=0", "WORLD_SIZE is \"0\", but there is at least one rank"),
            ("WORLD_SIZE=2.5", "WORLD_SIZE is \"2.5\", but it must be a whole number from 1"),
            ("MASTER_PORT=0", "MASTER_PORT is \"0\", but a port is a whole number from 1 to 65535"),
            ("MASTER_PORT=70000", "MASTER_PORT is \"70000\", but a port is a whole number from 1 to 65535"),
            ("LANDFALL_PORT=x", "LANDFALL_PORT is \"x\", but a port is a whole number from 1 to 65535"),
            ("MASTER_ADDR=", "MASTER_ADDR is \"\", but it must be a host name or an address"),
            (
                "TORCHELASTIC_USE_AGENT_STORE=True MASTER_PORT=65535",
                "MASTER_PORT is \"65535\", but torchrun listens there, and there is no next port for the ranks; set LANDFALL_PORT",
            ),
            (
                "LANDFALL_SECRET=",
                "LANDFALL_SECRET is \"\", but an empty text keeps nobody out; set a long random one, or none",
            ),
        ] {
            assert_eq!(text(torchrun(variables)), error, "{variables}");
        }
        assert_eq!(
            text(slurm("SLURM_PROCID=6")),
            "SLURM_PROCID is \"6\", but it must be below SLURM_NTASKS, which is 6"
        );
        assert!(
            text(slurm("SLURM_STEP_NODELIST=n["))
                .starts_with("SLURM_STEP_NODELIST is \"n[\", but it must be a list")
        );
        assert!(text(slurm("SLURM_JOB_ID=x")).starts_with("SLURM_JOB_ID is \"x\""));
    }

    #[test]
    fn a_secret_is_read_and_not_printed() {
        let launch = found(torchrun("LANDFALL_SECRET=deep"));
        assert_eq!(launch.secret, Some(Secret::from("deep".to_owned())));
        assert!(!format!("{launch:?}").contains("deep"));
    }
}
