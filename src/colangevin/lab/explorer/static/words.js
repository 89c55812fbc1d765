// Words and symbols: a sentence each, beside the control and in one list.

const METHOD = {
  sgd: ["SGD", "Stochastic gradient descent: each step goes down the gradient of a batch, times h.", "from-sgd"],
  sgdm: ["SGD with momentum", "Steps keep a share μ of the last one.", "from-sgd"],
  sgld: ["SGLD", "SGD with noise of the size √(2hτ) in each step: overdamped Langevin dynamics.", "temperature"],
  langevin: ["Langevin", "Dynamics with momenta, friction γ and noise, at the temperature τ.", "concepts"],
  cola: ["CoLA", "Constrained Langevin dynamics: weights move on a constraint, for example each on a circle. Without constraint and at τ = 0 it is SGD.", "constraints"],
  lol: ["LOL", "Langevin dynamics in the hidden part, overdamped in the output part.", "partitioned"],
  adlala: ["AdLaLa", "Adaptive Langevin in the hidden part, whose friction ξ finds its value; Langevin in the output part.", "partitioned"],
  dhsgd: ["DHSGD", "Two parts of a network with steps of different size, which shrink.", "partitioned"],
  multirate: ["Multirate SGD", "A slow part of the network steps only every k-th time, with a step k times as long.", "multirate"],
};
const SYMBOL = {
  h: ["Step size h", "How far a step goes. With momentum, lr = h².", "concepts"],
  tau: ["Temperature τ", "How much noise: the dynamics sample exp(−loss/τ). At 0 there is no noise.", "temperature"],
  tau2: ["Output temperature τ₂", "The temperature of the output part.", "partitioned"],
  gamma: ["Friction γ", "How fast momenta are forgotten. At γ = ∞ there are none: the dynamics is overdamped.", "concepts"],
  overdamped: ["Overdamped", "The limit γ = ∞: no momentum, each step is a gradient step with noise.", "concepts"],
  momentum: ["Momentum μ", "The share of the last step that the next one keeps.", "from-sgd"],
  xi: ["Friction variable ξ", "In AdLaLa the friction of a group. It rises while the group is hotter than τ, and falls while it is colder. On a circle, ξ is also the slack: θ² + ξ² = r².", "partitioned"],
  epsilon: ["Coupling ε", "How fast ξ follows the temperature.", "partitioned"],
  sigma: ["Driving noise σ", "Noise that AdLaLa adds to the momenta; ξ takes its heat out again.", "partitioned"],
  scheme: ["Langevin word", "The order of the parts of a step: A moves, B takes the gradient, O has friction and noise.", "schemes"],
  direction: ["Step along", "What takes the place of the gradient: its sign, Adam's or the polar direction.", "directions"],
  contractive: ["Contractive", "DHSGD with output steps of h.", "partitioned"],
  slow: ["Slow part", "Which weights step only every k-th time.", "multirate"],
  period: ["Period k", "Slow steps come every k-th step.", "multirate"],
  decay: ["Weight decay", "A penalty on the squares of the weights.", "from-sgd"],
  constraint: ["Constraint", "circle: every weight stays within ±r. max-norm and unit-norm: rows of length at most r, or r. orthogonal: all singular values are 1.", "constraints"],
  kinetic: ["Kinetic temperature", "The mean square of the momenta. At equilibrium it is τ; noise of batches makes it larger.", "temperature"],
  violation: ["Violation", "How far the weights are off their constraint, relative to it. Rounding is about 1e-7.", "constraints"],
};
export const WORDS = { ...SYMBOL, ...METHOD };

/** The word for a control, if it has one. */
export function wordOf(name, value) {
  if (name === "method") return value;
  if (["input", "hidden", "output"].includes(name)) return "constraint";
  return WORDS[name] ? name : null;
}

export function short(key) {
  return WORDS[key][1];
}

/** The list of all words. */
export function fillWords(place) {
  for (const [key, [title, text, page]] of Object.entries(WORDS)) {
    const term = Object.assign(document.createElement("dt"), { id: `word-${key}`, textContent: title });
    const meaning = Object.assign(document.createElement("dd"), { textContent: `${text} ` });
    const more = Object.assign(document.createElement("span"), { className: "hint", textContent: `More: docs/${page}.md` });
    meaning.append(more);
    place.append(term, meaning);
  }
}

export function openWords(key) {
  const dialog = document.getElementById("words-dialog");
  dialog.showModal();
  for (const term of dialog.querySelectorAll("dt")) term.classList.toggle("asked", term.id === `word-${key}`);
  document.getElementById(`word-${key}`)?.scrollIntoView({ block: "center" });
}
