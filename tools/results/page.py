"""The page docs/results.md: the text around tables and figures."""

from tools.results import experiments
from tools.results.choices import choice_table
from tools.results.differences import difference_sentences, difference_table, distance_sentence
from tools.results.listings import departure_list, hardware_list, run_table, time_table
from tools.results.runs import Runs
from tools.results.series import BATCH_SIZE, LEARNING_CURVES, LOSS_WEIGHT, drawable
from tools.results.tables import aim_table, grid_table, group_table, loss_weight_table, probe_table

_HOW_TO_READ = """\
# Results

Made by `make results` from the files in `results/`, one for each finished run. No number of ours is typed by hand; a
test fails when the page is not what the files give.

## How to read

- **ours**: accuracy on the test set after the last epoch, in percent: mean ± standard deviation (number of seeds). One
  seed has no deviation. No epoch is chosen.
- **best**: the mean over the seeds of the best epoch on the test set, of those that were evaluated. It is chosen by
  looking at the test set and is too good for that reason; it is here only because the paper reports it.
- **paper**: what the paper reports. Its CIFAR numbers are the best epoch on the test set of single runs, so they
  compare with "best" rather than with "ours".
- **imbalance**: training images of the largest class over those of the smallest. Where a table has several, the heads
  of its columns begin with it.
- Hardware: {hardware}.

A recipe is a file of settings in the package; "All runs" and `proco recipes` have their names. Its runs, and their
entries in `results/`, are made by

```sh
proco compare RECIPE... --seeds 0 1 2 --lanes 4 --results results data.source.path=PATH
```

"""


def write_page(runs: Runs) -> str:
    """Return the page as Markdown."""
    sections = [
        _main(runs),
        _groups(runs),
        _differences(runs),
        _ablations(runs),
        _curves(runs),
        _time(runs),
        _runs(runs),
    ]
    if runs.choosing:
        sections.append(_choices(runs))
    return _HOW_TO_READ.format(hardware=hardware_list(runs)) + "\n\n".join(sections) + "\n"


_PLUS = """\
ProCo+ is a network of the same size, taught by three experts that were trained before it on the same images. The
experts have ProCo's loss, epochs and views, and another course of training (`recipes/_flat.yaml`). The network that
they teach has, in the classifier's view, a box of another image in place of Cutout's empty one, labels shared by area,
and the divergence from what the experts say of it as one more term (`recipes/_plus.yaml`). Boxes are of all classes
equally often, so of rare ones far more often than these occur. Training takes about five times as long as ProCo's, in
use the network costs the same. All of it was chosen by runs of one seed on CIFAR-100-LT at imbalance 100, on images
that its training set leaves out ("Choices"), and is the same for the other sets."""

_LARGER = """\
### ProCo+ in parts, and larger networks

CIFAR-100-LT, imbalance 100, 200 epochs, all with the course of training of ProCo+. The last two have more weights than
the networks of the tables above. The experts of the third row are runs of their own, with the settings and seeds of
those that teach in the second; how accurate these were is `teacher_top1` in the entries.

{}"""

_AIMS = """\
### Aims

ProCo+ was to reach the paper's numbers for ProCo, though they are of the best epoch, and on CIFAR-100-LT at imbalance
100 more than the 53.16 % of ConCutMix (2024), the most that we know to be published for one ResNet-32 in 200 epochs.
That had no teacher: at equal cost compares what is "not taught". Larger networks were to be above what is published for
several experts in 200 epochs, 56.34 %.

{}

What was tried on the way, and what each try gave, is under "Choices". The next idea for the three experts: let three
others teach them, with pasted boxes, as they teach ProCo+; the same for the wide network."""


def _main(runs: Runs) -> str:
    tables = [f"### {label}, 200 epochs\n\n{grid_table(runs, grid)}" for label, grid in experiments.MAIN.items()]
    long = f"### CIFAR-100-LT, imbalance 100, 400 epochs\n\n{grid_table(runs, experiments.LONG_MAIN)}"
    larger = _LARGER.format(grid_table(runs, experiments.LARGER))
    aims = _AIMS.format(aim_table(runs, experiments.AIMS))
    return "\n\n".join(["## Long-tailed CIFAR", _PLUS, *tables, long, larger, aims])


def _groups(runs: Runs) -> str:
    return f"""\
## Many, medium and few

CIFAR-100-LT at imbalance 100. Classes with more than 100 training images are many, with fewer than 20 few, the others
medium.

### 200 epochs

{group_table(runs, experiments.SHORT)}

### 400 epochs

{group_table(runs, experiments.LONG)}"""


def _differences(runs: Runs) -> str:
    text = f"""\
## Do the paper's numbers and differences hold?

{distance_sentence(runs, "proco")}
The official code, run once on the same data and GPU, gave 51.78 % in its last epoch at imbalance 100 and 52.19 % in its
best, where the paper has 52.8 %.

Differences of the last epoch, in points, seed by seed over the seeds that both methods have (their number in brackets),
with a 95 % t-interval of the mean. With three seeds the interval is 2.5 standard deviations to either side, so only
large differences exclude 0. The interval is of our runs alone: the paper's difference has a spread of its own, which is
not known."""
    parts = [
        f"### ProCo over {experiments.METHODS[other]}\n\n"
        f"{difference_table(runs, 'proco', other)}\n\n{difference_sentences(runs, 'proco', other)}"
        for other in ("bcl", "logit_adjustment")
    ]
    return "\n\n".join([text, *parts])


def _ablations(runs: Runs) -> str:
    return f"""\
## Ablations

CIFAR-100-LT, 200 epochs; imbalance 100 where nothing else is said.

### Class complements

What stands for a class in the contrast.

{grid_table(runs, experiments.COMPLEMENTS)}

The paper finds the distribution a point better than prototypes. Here the four lie within each other's spread: what the
contrast gains over logit adjustment it gains with any of them.

### Combinations

SC: supervised contrast of samples. CC: class complement. CR: complements computed from features instead of learnt.
MM: margins by class frequency.

{grid_table(runs, experiments.COMBINATIONS)}

Two rows say something else than the paper's. Prototypes that are learnt, alone and without margins (CC), do as well as
ProCo; the paper gains nothing by them. And ProCo with the contrast of samples beside it, the two losses added, is worse
than either; the paper's loses little, but does not say how the two were weighted.

### Form of the loss

The logarithm of the mean over the positives ("in"), or the mean of their logarithms ("out"); by imbalance.

{grid_table(runs, experiments.LOSS_FORMS)}

### AutoAugment

Without AutoAugment the classifier's view is cropped and mirrored only; Cutout goes too.

{grid_table(runs, experiments.AUGMENTATION)}

Without it these runs lose far more than the paper's, which does not say what the classifier then sees. With crop and
flip alone another implementation of logit adjustment has about what ours has,
[44.0 %](https://github.com/Chumsy0725/logit-adj-pytorch). With Cutout left in, ProCo is about as far below the paper as
it is with AutoAugment, but logit adjustment is still far below:

{grid_table(runs, experiments.WITHOUT_AUTO)}

### Weight of the contrastive loss

The paper shows a figure without numbers, with the best accuracy at 1; so it is here.

{_figure(runs, LOSS_WEIGHT, "Test accuracy by the weight of the contrastive loss")}{loss_weight_table(runs)}

### Representation branch alone

Backbone and projector are trained without the classifier; then a linear classifier, with logit adjustment, is trained
on the frozen backbone. The paper shows a figure without numbers; settings are SupCon's, as it says. Features are
standardised for the classifier. Without that it does not converge at SupCon's rate: in runs at commit b53fc0c it knew
next to nothing of rare classes, and the less the fewer steps it had. Its own batches are always of the same size.

{_figure(runs, BATCH_SIZE, "Test accuracy by batch size, a line a method")}{probe_table(runs)}

### What the paper leaves open

What might stand between these runs and the paper's: the precision of products; the weight decay, for which its text has
4e-4 and its code 2e-4; and how many views logit adjustment had. With ProCo's three it learns by the first, but the
others pass the batch norms too.

{grid_table(runs, experiments.FAITHFULNESS)}

### Balanced data

The whole of CIFAR-100 and CIFAR-10.

{grid_table(runs, experiments.BALANCED)}"""


def _curves(runs: Runs) -> str:
    figure = _figure(runs, LEARNING_CURVES, "Test accuracy by epoch, a line a method").strip()
    return f"""\
## Learning curves

CIFAR-100-LT, imbalance 100, 200 epochs; to the right the end of it. Lines are means over the seeds, bands go from the
least to the most accurate seed.

{figure or "No run yet."}"""


def _time(runs: Runs) -> str:
    return f"""\
## Time

Seconds of a run, its evaluations included: mean (number of runs). "alone": it had the GPU to itself. "side by side": as
many as "lanes" says shared the GPU; their seconds are divided by that number, which is what a run costs while all lanes
are busy with their like: beside slower runs it takes as long as they do, as `proco_plus_100_untaught` did.

{time_table(runs)}"""


def _runs(runs: Runs) -> str:
    return f"""\
## All runs

"all", "many", "medium" and "few" are of the last epoch; "last 20" is the mean of the last 20 epochs.
{departure_list(runs)}

{run_table(runs)}"""


def _choices(runs: Runs) -> str:
    return f"""\
## Choices

Runs by which settings are chosen, for ProCo+ above all. Nothing is chosen by the test set: they train on the same
images and are evaluated on up to 200 images a class that the long-tailed subset leaves out of CIFAR-100's training set
(the largest class has none, the next have few; "accuracy" is the mean over classes). They are in no table above, and
are run by the same command, with `--seeds 0` or `--seeds 1`.

"over base" is the mean difference from the base over the seeds that both have (their number in brackets). In the tables
above, accuracies of seeds of one recipe differ by half a point to a point, so that a gain below one point in one seed
is a hint at most.

Settings that `proco_plus` had for these runs, and that gained nothing, are gone from the code. A name without a folder
is of such a run; the commit behind it has the code, and `config` of its entry in `results/` the settings.

What the literature adds to such a recipe (pasted boxes, agreement between views, a last stretch for the head) moves
accuracy between frequent and rare classes here, but does not raise the mean of all. Neither do leave-one-out
statistics, a longer window, exact concentrations, a warm-up by steps or other normalisation constants. What can be won
is variance: networks together are far better than each of them.
Steps that look for flat minima, the mean of weights at a high rate, and Nesterov's momentum are hints each; together
(`flat_mean`) they are more than that.

Of three experts that teach each other the one kept is no better than one that learnt alone: they become alike, and what
all say together is then little more than what each says. (In an earlier form, `past_*`, it was far worse: experts
agreed on the projector's views too, of which no label tells them anything, and the cheapest way to agree there is to
say the same of all.) The average of the weights as a teacher costs rare classes much of their accuracy: what it has not
yet learnt of them holds back what learns from it.

A teacher that is finished has neither fault. Three experts, trained first, teach one network as much as flat minima
give (`taught`), and both add up (`flat_mean_taught`). What it learns lies in classes that are unlikely, so logits are
softened (`*_temperature_1` has less), but it must not outweigh the labels (`*_weight_3`). Uphill gradients in the last
epochs alone (`flat_mean_late`) are, as far as one seed tells, as good and cost less: the runs named `late_*` follow
from there.

Pasted boxes (`paste_counts`) take more from frequent classes than they give to rare ones. With a teacher, who says
what is seen of both images, they give more than they take: +0.37 over `late_taught` with a box in half of the images
(`late_taught_paste`), +0.71 with one in each (`late_taught_paste_1`), in one seed. The last is ProCo+; what boxes add
to it on the test set was not measured.

{choice_table(runs)}"""


def _figure(runs: Runs, name: str, alt: str) -> str:
    if name not in drawable(runs):
        return ""
    note = "" if name == LEARNING_CURVES else "Bars are one standard deviation over the seeds.\n\n"
    return f"{note}![{alt}](figures/{name}.svg)\n\n"
