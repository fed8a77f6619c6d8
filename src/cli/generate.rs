//! `sightline completions` and `sightline man`: what packages of the program install beside it, made from the command line itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Cli, Failure, terminal};

const NAME: &str = "sightline";

/// Print completions for a shell, which its own folder for them takes.
///
/// bash: ~/.local/share/bash-completion/completions/sightline; fish: ~/.config/fish/completions/sightline.fish; zsh: a file _sightline in a
/// folder of $fpath.
#[derive(Debug, clap::Args)]
pub struct CompletionArguments {
    shell: Shell,
}

pub fn completions(arguments: &CompletionArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    // Into memory first: what writes it panics where it can't.
    clap_complete::generate(arguments.shell, &mut Cli::command(), NAME, &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}

/// Print the manual page, or write that of every command into a folder.
#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// The folder for sightline.1, sightline-locate.1 and the others.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    match &arguments.out {
        None => Ok(Man::new(command).render(&mut std::io::stdout().lock())?),
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| unwritable(folder))?;
            write_pages(command, folder)
        }
    }
}

fn write_pages(command: Command, folder: &Path) -> Result<(), Failure> {
    let (mut pending, mut written) = (vec![command], 0);
    while let Some(command) = pending.pop() {
        pending.extend(command.get_subcommands().filter(|it| !it.is_hide_set()).cloned());
        Man::new(command).generate_to(folder).with_context(|| unwritable(folder))?;
        written += 1;
    }
    terminal::remark(&format!("{} in {}", terminal::counted(written, "page"), folder.display()));
    Ok(())
}

fn unwritable(folder: &Path) -> String {
    format!("the folder `{}` can't be written", folder.display())
}
