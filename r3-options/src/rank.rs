//! The process's rank among the processes of a parallel job.

/// Variables that hold the rank, most specific first: a `mpirun` inside a Slurm
/// job sets its own variable, while Slurm's is the same in every process then.
const RANK_VARIABLES: [&str; 8] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "JSM_NAMESPACE_RANK",
    "FLUX_TASK_RANK",
    "PALS_RANKID",
    "SLURM_PROCID",
];

/// The rank that an MPI, PMI, Flux or Slurm launcher, or `torchrun`, gave this
/// process. `lookup` answers for one environment variable.
pub fn rank_from_env(lookup: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| lookup(name).and_then(|value| value.trim().parse::<u32>().ok());
    let (job, slurm) = RANK_VARIABLES.split_at(RANK_VARIABLES.len() - 1);
    if let Some(rank) = job.iter().find_map(|name| number(name)) {
        return Some(rank);
    }
    // `RANK` alone is too common a name to believe; torchrun sets all three.
    let torchrun = number("LOCAL_RANK").is_some() && number("WORLD_SIZE").is_some();
    torchrun
        .then(|| number("RANK"))
        .flatten()
        .or_else(|| slurm.iter().find_map(|name| number(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(variables: &[(&str, &str)]) -> Option<u32> {
        rank_from_env(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_known() {
        for name in RANK_VARIABLES {
            assert_eq!(rank(&[(name, "3")]), Some(3), "{name}");
        }
        assert_eq!(rank(&[]), None);
    }

    #[test]
    fn mpirun_inside_a_slurm_job_wins_over_slurm() {
        assert_eq!(
            rank(&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "5")]),
            Some(5)
        );
        assert_eq!(rank(&[("SLURM_PROCID", "0"), ("PMI_RANK", "6")]), Some(6));
    }

    #[test]
    fn rank_alone_is_not_believed() {
        assert_eq!(rank(&[("RANK", "2")]), None);
        let torchrun = [("RANK", "2"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "4")];
        assert_eq!(rank(&torchrun), Some(2));
    }

    #[test]
    fn a_value_that_is_no_number_is_passed_over() {
        assert_eq!(
            rank(&[("PMI_RANK", "none"), ("SLURM_PROCID", "1")]),
            Some(1)
        );
        assert_eq!(rank(&[("PMI_RANK", "-1")]), None);
    }
}
