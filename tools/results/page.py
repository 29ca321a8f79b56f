"""The page docs/results.md: the text around tables and figures."""

from collections.abc import Iterable
from itertools import chain

from tools.results import experiments
from tools.results.cells import spread_or_no_run
from tools.results.choices import choice_folders, choice_recipes, choice_table
from tools.results.commands import commands
from tools.results.differences import difference_table, distance_sentence, few_seeds_sentence, verdict_sentence
from tools.results.listings import (
    cost_sentence,
    departure_list,
    error_sentence,
    hardware_list,
    run_table,
    time_table,
    waiting_list,
)
from tools.results.methods import (
    COMBINED,
    combination_table,
    common_recipes,
    corrected_sentence,
    method_table,
    own_recipes,
    own_sentence,
    quickstart_table,
)
from tools.results.official import official_sentence, speed_sentence
from tools.results.runs import Runs
from tools.results.series import BATCH_SIZE, LEARNING_CURVES, LOSS_WEIGHT, drawable, loss_weights
from tools.results.tables import aim_sentence, aim_table, grid_table, group_table, loss_weight_table, probe_table

_HOW_TO_READ = """\
# Results

Made by `make results` from the files in `results/`, one for each finished run. Tables, figures and the numbers of ours
in the text are made from them, and a test fails when the page is not what the files give; what is read from them, and
numbers of runs that were replaced, are written by hand.

## How to read

- **ours**: accuracy on the test set after the last epoch, in percent: mean ± standard deviation (number of seeds). One
  seed has no deviation. No epoch is chosen.
- **best**: the mean over the seeds of the best epoch on the test set, of those that were evaluated: 38 of 200 here, all
  of them in the official code. It is chosen by looking at the test set and is too good for that reason; it is here only
  because the paper reports it.
- **paper**: what the paper reports. By its published logs, ProCo's CIFAR numbers are the best epoch on the test set of
  single runs, so they compare with "best" rather than with "ours"; those of the others presumably too.
- **imbalance**: training images of the largest class over those of the smallest. Where a table has several, the heads
  of its columns begin with it.
- Hardware: {hardware}.

A recipe is a file of settings in the package. Below a table of accuracies stand the commands that make its runs and
their entries in `results/`; CIFAR10 and CIFAR100 are where the data is. Other tables are of the same runs.
[Time](#time) says what was run on which hardware; on a CPU there are no lanes, and `engine.precision=bfloat16` rounds
products as GPUs do by themselves.

"""


def write_page(runs: Runs) -> str:
    """Return the page as Markdown."""
    sections = [
        _summary(runs),
        _main(runs),
        _groups(runs),
        _differences(runs),
        _methods(runs),
        _ablations(runs),
        _curves(runs),
        *([_choices(runs)] if runs.choosing else []),
        _time(runs),
        _runs(runs),
    ]
    return _HOW_TO_READ.format(hardware=hardware_list(runs)) + "\n\n".join(sections) + "\n"


def _summary(runs: Runs) -> str:
    return f"""\
## In short

- {distance_sentence(runs, "proco")}
  {official_sentence(runs)}
- {speed_sentence()}
- {_difference_heading("proco", "bcl")}: {verdict_sentence(runs, "proco", "bcl")}
  The two contrasts have other weights beside the classifier's loss; at the same weight
  [no difference is seen](#proco-over-bcl).
- {_difference_heading("proco", "logit_adjustment")}: {verdict_sentence(runs, "proco", "logit_adjustment")}
- {_difference_heading("proco_plus", "proco")}: {verdict_sentence(runs, "proco_plus", "proco")}
  It is taught by three experts, which are trained before it. {cost_sentence(runs, "proco_plus", "proco")}
  In use it costs no more. {aim_sentence(runs, experiments.AIMS)}"""


def _grid(runs: Runs, grid: experiments.Grid) -> str:
    return _with_commands(runs, grid_table(runs, grid), chain.from_iterable(grid.rows.values()))


def _with_commands(runs: Runs, table: str, recipes: Iterable[str]) -> str:
    """Return a table and the commands that make its runs."""
    return f"{table}\n\n{commands(runs, recipes)}".rstrip()


_PLUS = """\
ProCo+ is a network of the same size, taught by three experts that were trained before it on the same images. The
experts have ProCo's loss, epochs and views, and another course of training
([`_flat.yaml`](../src/proco/recipes/_flat.yaml)). The network that they teach has, in the classifier's view, a box of
another image in place of Cutout's empty one, labels shared by area, and the divergence from what the experts say of it
as one more term ([`_plus.yaml`](../src/proco/recipes/_plus.yaml)). Boxes are of all classes equally often, so of rare
ones far more often than these occur. In use the network costs the same as ProCo's.
{cost}
All of it was chosen by runs of one seed each on CIFAR-100-LT at imbalance 100, on images that its training set leaves
out ([Choices](#choices)), and is the same for the other sets. All others have the course of training of ProCo's
official code, in which there is neither logit adjustment alone nor BCL. The weight of BCL's contrast, 0.3 at this rate,
is from a reproduction: its own code has nothing for CIFAR, and ProCo's paper does not say which weight it had. None of
the three was tuned."""

_LARGER = """\
### ProCo+ in parts, and larger networks

CIFAR-100-LT, imbalance 100, 200 epochs, all with the course of training of ProCo+. The last two have more weights than
the networks of the tables above. The three experts are runs of their own, with the settings and seeds of those that
teach ProCo+; how accurate these were is `teacher_top1` in the entries. Most of what ProCo+ has over ProCo
comes with teacher and boxes.

{}"""

_AIMS = """\
### Aims

ProCo+ was to reach the paper's numbers for ProCo, though they are of the best epoch, and on CIFAR-100-LT at imbalance
100 more than the 53.16 % of ConCutMix (2024), the most that we know to be published for one ResNet-32 in 200 epochs.
ConCutMix has no teacher: the fair comparison at about equal cost is the network that is not taught, and it is below.
Larger networks were to reach 57.0 %, which BalPoE has with seven experts in 400 epochs (SHIKE has 56.34 % with three in
200; its experts share two stages, these one), and 58.5 %, above the 58.41 % of GLMC with MaxNorm and a wide
network.

{}

What was tried on the way, and what each try gave, is under [Choices](#choices). The next idea for the three experts:
let three others teach them, with pasted boxes, as they teach ProCo+ (`cifar100_lt/choices/late_experts_taught`, which
has no run yet); the same for the wide network. For the network that is not taught: experts within
the one run that are kept unlike each other, as RIDE's are, and of which one is left in the end; of experts that became
alike the one left was no better than a network that learnt alone (`taught_expert_*`).

ProCo itself is below the paper in every setting. What might explain it is under
[What the paper leaves open](#what-the-paper-leaves-open); the one that has no run yet is the official code's own
operations of AutoAugment."""


def _main(runs: Runs) -> str:
    plus = _PLUS.format(cost=cost_sentence(runs, "proco_plus", "proco"))
    tables = [f"### {label}, 200 epochs\n\n{_grid(runs, grid)}" for label, grid in experiments.MAIN.items()]
    long = f"### CIFAR-100-LT, imbalance 100, 400 epochs\n\n{_grid(runs, experiments.LONG_MAIN)}"
    larger = _LARGER.format(_grid(runs, experiments.LARGER))
    aims = _AIMS.format(aim_table(runs, experiments.AIMS))
    return "\n\n".join(["## Long-tailed CIFAR", plus, *tables, long, larger, aims])


def _groups(runs: Runs) -> str:
    return f"""\
## Many, medium and few

CIFAR-100-LT at imbalance 100. Classes with more than 100 training images are many, with fewer than 20 few, the others
medium.

Over BCL, ProCo gains most in the classes with few images, as in the paper. Our logit adjustment leans further towards
them than the paper's, at the cost of frequent ones.

### 200 epochs

{group_table(runs, experiments.SHORT)}

### 400 epochs

{group_table(runs, experiments.LONG)}"""


_METHODS = """\
## Every method

What each is, with formula, source and departures, is in [methods](methods.md).

### CIFAR-100-LT, imbalance 100

"common" is one recipe for all: ProCo's network, optimiser, epochs and view for the classifier, and the objective
exchanged; methods of one branch see that view alone, contrastive ones two more. "paper" is what ProCo's paper has for
it. "own" has the settings that the method was published with or, where there are none for this data, those nearest to
them, as the recipe says; most crop and flip only, so that the columns do not compare with each other. What is published
for it is mostly of the best epoch on the test set, too. A dash: it has none, or the common one is its own.
Under the common recipe cRT, LWS, DisAlign, NCM, tau-normalisation and post-hoc logit adjustment go on from the network
that cross-entropy has left, that of the same seed.

{methods}

Under the common recipe, which loss it is matters less than whether the class frequencies are in the scores. What has
them there, in training or after it, stands within about a point of logit adjustment. Deferred weights and second stages
(LDAM-DRW, cRT, LWS, DisAlign) stand somewhat below, corrections without frequencies (tau-normalisation, nearest means,
TDE) between these and cross-entropy. Frequencies in margins or in weights alone do not do it (LDAM before its weights
change, the class-balanced focal loss), and what looks at hard images or shifts features (focal, ISDA) stands where
cross-entropy stands, or below. Most contrastive methods are above all of these. Where there is one seed, a difference
of a point says nothing: cross-entropy differs by more between its seeds, and the six that go on from it share its luck.

ISDA shifts features by the spread of their class, which is larger where a class has more images: here it gives frequent
classes the wider margins. The class-balanced focal loss has, as "common" for all, its usual beta; with a hundred
classes that is far too much ([Choices](#choices)). GCL mixes images by pairs, here on top of AutoAugment and Cutout,
which is too much for this network: at the end of training it recognises a third of what it is shown. On the bundled
images it was better without in each of three seeds.

{mixup}

{own}

ProCo's contrast beside other classifications than logit adjustment, common recipe:

{combinations}

It adds about a point to the vMF classifier and to LDAM-DRW, half of what it adds to logit adjustment, in one seed.
Where the classification has no class frequencies in it (ISDA) the contrast does not bring them: it has them in the
scores of embeddings, by which nothing is predicted.

### On the bundled images

Long-tailed Fashion-MNIST as it ships with the package, 12 epochs of a small network on two CPU cores; chance is 10 %.
This is to see that each method runs and learns, not to rank them: the network is small, training short, and nothing was
tuned but the strength of TDE's correction, on images left out of training.

{quickstart}"""


_OWN = """\
{}
{}
What is published for the class-balanced focal loss is the best on the test set of twelve pairs of beta and gamma, on
images of its own; ours is one pair, chosen on left-out images. Its run was made anew, on a CPU, when its rate rose with
every step as its authors' does; before, on a GPU, it had 38.54 (`results/` at commit c70ff26)."""


def _methods(runs: Runs) -> str:
    return _METHODS.format(
        methods=_with_commands(runs, method_table(runs), [*common_recipes(runs), *own_recipes(runs)]),
        mixup=_grid(runs, experiments.MIXUP),
        own=_OWN.format(own_sentence(runs), corrected_sentence(runs)),
        combinations=_with_commands(runs, combination_table(runs), runs.known(COMBINED)),
        quickstart=_with_commands(runs, quickstart_table(runs), runs.known(experiments.QUICKSTART)),
    )


def _differences(runs: Runs) -> str:
    text = f"""\
## Do the paper's numbers and differences hold?

The numbers do not, by up to a point. ProCo's lead over logit adjustment does, in the mean of the settings as at most of
them. Its lead over BCL has the paper's sign in the mean, but less than half of its size.

{distance_sentence(runs, "proco")}
{official_sentence(runs)}

Differences in points, seed by seed over the seeds that both methods have (their number in brackets), with a 95 %
t-interval of the mean; what only one of them has is in the tables of accuracy and not in these.
{few_seeds_sentence(runs)}
Three seeds say little of the spread, so the intervals of a table are made with one standard deviation, pooled over its
settings, which need not scatter alike: those of ProCo over BCL seem not to. About one in twenty such intervals misses
the true difference, so single rows say little: most that include the paper's would include 0 as well. The last row is
their mean, each setting counting the same; its interval says what other seeds would give, not what other data would.
Pairing by seed buys little: on a GPU a seed does not give the same run twice.

Whether there is a difference is read from the last epoch. The paper's are compared with the best epoch, which it
reports, and with an interval in which differences of single runs lie that scatter as ours do ("for single runs").

The runs of these methods on CIFAR-100-LT at imbalance 100 and 50 were made twice. In the first, runs side by side
shared scratch memory and could disturb each other ([performance](performance.md)); for that reason all their entries
(in `results/` at commit 87a13aa) were replaced by those of runs at d7132d9. In the first ProCo over BCL was +0.17 and
+0.61 at imbalance 100 and 50, over logit adjustment +1.80 and +2.01."""
    pairs = (("proco", "bcl"), ("proco", "logit_adjustment"), ("proco_plus", "proco"))
    parts = [part for pair in pairs for part in _difference(runs, *pair)]
    return "\n\n".join([text, *parts])


def _difference(runs: Runs, method: str, other: str) -> list[str]:
    heading = f"### {_difference_heading(method, other)}"
    found = [heading, verdict_sentence(runs, method, other), difference_table(runs, method, other)]
    return [*found, _weights_note(runs)] if (method, other) == ("proco", "bcl") else found


def _weights_note(runs: Runs) -> str:
    light = runs.spread(f"{experiments.LOSS_WEIGHTS}_0.3")
    bcl, heavy = (runs.spread(name) for name in (experiments.SHORT.recipe("bcl"), experiments.BCL_WEIGHT_1))
    return f"""\
The two contrasts do not count the same: ProCo's has weight 1 beside the classifier's loss, BCL's 0.3, each as in its
source. With 0.3 at imbalance 100 ProCo has {spread_or_no_run(light)}, and BCL {spread_or_no_run(bcl)}: at the same
weight no difference is seen, and ProCo's lead may be that of its weight. BCL's with weight 1:
{spread_or_no_run(heavy)}."""


def _difference_heading(method: str, other: str) -> str:
    return f"{experiments.METHODS[method]} over {experiments.METHODS[other]}"


def _ablations(runs: Runs) -> str:
    error = error_sentence(runs)
    weights = _with_commands(runs, loss_weight_table(runs), [point.recipe for point in loss_weights(runs)])
    probes = _with_commands(runs, probe_table(runs), runs.known(experiments.PROBES))
    return f"""\
## Ablations

CIFAR-100-LT, 200 epochs; imbalance 100 where nothing else is said. "over ProCo" is the difference of the means.
{error}

### Class complements

What stands for a class in the contrast.

{_grid(runs, experiments.COMPLEMENTS)}

The paper finds the distribution a point better than prototypes. Here the four lie within each other's spread: what the
contrast gains over logit adjustment it gains with any of them.

### Combinations

SC: supervised contrast of samples. CC: class complement. CR: complements computed from features instead of learnt.
MM: margins by class frequency.

{_grid(runs, experiments.COMBINATIONS)}

Two rows say something else than the paper's. Prototypes that are learnt, alone and without margins (CC), do as well as
ProCo; the paper gains nothing by them. And ProCo with the contrast of samples beside it, the two losses added, is worse
than either; the paper's loses little, but does not say how the two were weighted. Their sum weighs twice as much as
either alone, and by more weight ProCo alone loses too (1.5 and 2.5 below); the run with half the weight each is to
tell.

### Form of the loss

The logarithm of the mean over the positives ("in"), or the mean of their logarithms ("out"); by imbalance.

{_grid(runs, experiments.LOSS_FORMS)}

The paper has "in" above "out" by 0.4 to 0.8 points everywhere. Here it is by a third to a half of a point at imbalance
100 and 50, and "out" is by as much at 10, all within one or two standard errors.

### AutoAugment

Without AutoAugment the classifier's view is cropped and mirrored only; Cutout goes too.

{_grid(runs, experiments.AUGMENTATION)}

Without it these runs lose far more than the paper's, which does not say what the classifier then sees. With crop and
flip alone logit adjustment has no more by its authors' own settings either, 44.1 as published for 1,419 epochs. With
Cutout left in, ProCo is about as far below the paper as it is with AutoAugment, but logit adjustment is still far
below:

{_grid(runs, experiments.WITHOUT_AUTO)}

### Weight of the contrastive loss

The paper shows a figure without numbers, with the best accuracy at 1; so it is here, as far as two seeds tell.

{_figure(runs, LOSS_WEIGHT, "Test accuracy by the weight of the contrastive loss")}{weights}

### Representation branch alone

Backbone and projector are trained without the classifier; then a linear classifier, with logit adjustment, is trained
on the frozen backbone. The paper shows a figure without numbers; settings are SupCon's, as it says, but for the views:
windows are ProCo's, from 8 % of the image on (SupCon's from 20 %), and the classifier's view is cropped by shifting.
Features are standardised for the classifier. Without that it does not converge at SupCon's rate: in runs whose entries
stand in `results/` at commit 750ce76 it knew next to nothing of rare classes, and the less the fewer steps it had. That
was seen in their accuracy on the test set, and changed for all three methods alike. Its own batches are always of the
same size.

{_figure(runs, BATCH_SIZE, "Test accuracy by batch size, a line a method")}{probes}

SupCon needs large batches: below 256 it loses, and the more the smaller they are. ProCo loses little (from its best to
batches of 32 two thirds of a point), as the paper says. But BCL, of which the paper says the opposite, loses nothing in
small ones, and is the best of the three from 32 to 512: its learnt prototypes see to it that every class is in every
batch, as ProCo's distributions do. At 1024, where an epoch has ten steps, all three lose, and ProCo loses least. The
rate goes with the batch in proportion.

### What the paper leaves open

What might stand between these runs and the paper's: the precision of products; the weight decay, for which its text has
4e-4 and its code 2e-4; AutoAugment, whose policy is the same but whose operations are torchvision's here, with other
moves of pixels than the official code's ([`auto_augment.py`](../src/proco/augment/auto_augment.py)); and how many views
logit adjustment had. With ProCo's three it learns by the first, but the others pass the batch norms too.

{_grid(runs, experiments.FAITHFULNESS)}

Float32 products and the text's weight decay give, if anything, less, and views for the batch norms nothing.

### Balanced data

The whole of CIFAR-100 and CIFAR-10.

{_grid(runs, experiments.BALANCED)}

On CIFAR-100 ProCo gains less than half of what it gains in the paper, on CIFAR-10 about three quarters of it, though
the two seeds of cross-entropy differ by most of that."""


def _curves(runs: Runs) -> str:
    figure = _figure(runs, LEARNING_CURVES, "Test accuracy by epoch, a line a method").strip()
    return f"""\
## Learning curves

CIFAR-100-LT, imbalance 100, 200 epochs; to the right the end of it. Evaluated are every tenth epoch and the last
twenty. Lines are means over the seeds, whose number is in brackets; bands go from the least to the most accurate seed.
The rate falls after epochs 160 and 180; ProCo+ has its own course, and what is evaluated is the average of its weights.

{figure or "No run yet."}"""


def _time(runs: Runs) -> str:
    return f"""\
## Time

Seconds of a run, its evaluations included: mean (number of runs). They do not count the start of the process nor the
reading of the data; [performance](performance.md) has whole runs from start to end. "alone": it had the GPU to itself.
"side by side": as many as "lanes" says shared the GPU; their seconds are divided by that number, which is what a run
costs while all lanes are busy with their like: beside slower runs it takes as long as they do, as
`proco_plus_100_untaught` did. Runs on a CPU had other work beside them, and their seconds say little; those that go on
from another's count its seconds too.

{time_table(runs)}"""


def _runs(runs: Runs) -> str:
    return f"""\
## All runs

"all", "many", "medium" and "few" are of the last epoch; "last 20" is the mean of the last 20 epochs.

A seed does not give the same number twice on a GPU. Since commit 7a3b45b it draws other views too: for the same ones
check out the commit in the row. {departure_list(runs)}

{waiting_list(runs)}

{run_table(runs)}"""


_CHOICES = """\
## Choices

Runs by which settings are chosen, for ProCo+ above all. Nothing is chosen by the test set: they train on the same
images and are evaluated on up to 200 images a class that the long-tailed subset leaves out of CIFAR-100's training set
(the largest class has none, the next have few; "accuracy" is the mean over classes). These are 18,898 labelled images,
more than the 10,847 that are trained on: choosing by them is fair to the test set, but somebody with a long-tailed set
of their own does not have them. They are in no table above.

"over base" is the mean difference from the base, the first row of a table, over the seeds that both have (their number
in brackets). In the tables above, accuracies of seeds of one recipe differ by half a point to a point, so that a gain
below one point in one seed is a hint at most."""

# By the folder of the recipes.
_CHOSEN = {
    "cifar100_lt/choices": """\
### ProCo+

Settings that `proco_plus` had for these runs, and that gained nothing, are gone from the code. A name without a folder
is of such a run; the commit behind it has the code, and `config` of its entry in `results/` the settings.

What the literature adds to such a recipe (pasted boxes, agreement between views, a last stretch for the head) moves
accuracy between frequent and rare classes here, but does not raise the mean of all. Neither do leave-one-out
statistics, a longer window, exact concentrations, a warm-up by steps or other normalisation constants. What can be won
is variance: several networks together say it better (`*_experts`) than one that learns alone.
Steps that look for flat minima, the mean of weights at a high rate, and Nesterov's momentum are hints each; together
(`flat_mean`) they are more than that, on the test set too: there `proco_plus_100_untaught`, whose course this is, has
eight tenths of a point over ProCo.

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

Pasted boxes (`paste_counts`) give rare classes 5.5 points and cost frequent ones 3.8 and medium ones 2.1, in the mean
of all a third of a point (one seed). With a teacher, who says
what is seen of both images, they give more than they take, in one seed: something over `late_taught` with a box in
half of the images (`late_taught_paste`), more with one in each (`late_taught_paste_1`). The last is ProCo+; what boxes
add to it on the test set was not measured.""",
    "cifar100_lt/choices/cb_focal": """\
### Class-balanced focal loss

Its paper has the best accuracy over beta (0.9, 0.99, 0.999, 0.9999) and gamma (0.5, 1, 2), and does not say which ones
these were. The first row has those of its code's example, which is of ten classes. With a hundred, and five images in
the rarest, a beta so near to one weighs rare classes 98 times as much as frequent ones: frequent classes lose far more
than rare ones win. Smaller betas are better, and the smallest with the smallest gamma is best of the eight pairs tried:
`own/cb_focal_100` has it.""",
}


def _choices(runs: Runs) -> str:
    tables = {
        folder: _with_commands(runs, choice_table(runs, folder), choice_recipes(runs, folder))
        for folder in choice_folders(runs)
    }
    parts = [f"{_CHOSEN.get(folder, f'### {folder}')}\n\n{table}" for folder, table in tables.items()]
    return "\n\n".join([_CHOICES, *parts])


def _figure(runs: Runs, name: str, alt: str) -> str:
    if name not in drawable(runs):
        return ""
    note = "" if name == LEARNING_CURVES else "Bars are one standard deviation over the seeds.\n\n"
    return f"{note}![{alt}](figures/{name}.svg)\n\n"
