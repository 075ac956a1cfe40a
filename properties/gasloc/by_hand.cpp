// Recomputes GASLoC's graphs, light cones, growth of disagreement, and DiLoCo from the text alone.
#include "by_hand.hpp"

#include <algorithm>
#include <cmath>

namespace truestep::properties::gasloc::by_hand {

namespace {

std::uint64_t spread(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

/// The high 64 bits of a product, from its four partial ones.
std::uint64_t high(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t low_a = a & 0xffffffffU;
    const std::uint64_t low_b = b & 0xffffffffU;
    const std::uint64_t high_a = a >> 32U;
    const std::uint64_t high_b = b >> 32U;
    const std::uint64_t middle = high_a * low_b + ((low_a * low_b) >> 32U);
    const std::uint64_t other = low_a * high_b + (middle & 0xffffffffU);
    return high_a * high_b + (middle >> 32U) + (other >> 32U);
}

std::vector<int> order(std::uint64_t seed, Index round, int workers) {
    std::vector<int> p(static_cast<std::size_t>(workers));
    for (int i = 0; i < workers; ++i)
        p[static_cast<std::size_t>(i)] = i;
    const std::uint64_t of_round = spread(seed ^ spread(static_cast<std::uint64_t>(round)));
    for (auto k = static_cast<std::uint64_t>(workers) - 1; k >= 1; --k)
        std::swap(p[k], p[high(spread(of_round + k * 0x9e3779b97f4a7c15U), k + 1)]);
    return p;
}

} // namespace

Graph graph_of(const Settings& settings, Index round, int workers) {
    std::vector<std::vector<double>> weights(static_cast<std::size_t>(workers),
                                             std::vector<double>(static_cast<std::size_t>(workers), 0.0));
    const auto join = [&](int a, int b, double weight) {
        if (a != b)
            weights[static_cast<std::size_t>(std::min(a, b))][static_cast<std::size_t>(std::max(a, b))] =
                weight;
    };
    const auto far = [&](int most) {
        int turns = 0;
        while ((1 << turns) < workers)
            ++turns;
        return workers > 1 ? 1 << ((round - 1) % turns) : most;
    };
    switch (settings.law) {
    case Law::pairs: {
        const std::vector<int> p = order(settings.seed, round, workers);
        for (std::size_t i = 1; i < p.size(); i += 2)
            join(p[i - 1], p[i], 1.0);
        break;
    }
    case Law::two_peers: {
        const std::vector<int> p = order(settings.seed, round, workers);
        for (std::size_t i = 0; i < p.size(); ++i)
            join(p[i], p[(i + 1) % p.size()], 1.0);
        break;
    }
    case Law::ring:
        for (int i = 0; i < workers; ++i)
            join(i, (i + 1) % workers, 1.0);
        break;
    case Law::exponential:
        for (int i = 0; i < workers; ++i)
            join(i, (i + far(0)) % workers, 1.0);
        break;
    case Law::hypercube:
        for (int i = 0; i < workers; ++i)
            join(i, i ^ far(0), 1.0);
        break;
    case Law::complete:
        for (int a = 0; a < workers; ++a)
            for (int b = 0; b < a; ++b)
                join(a, b, 2.0 / workers);
        break;
    case Law::none:
        break;
    case Law::given:
        if (!settings.given.empty())
            for (const Edge& edge :
                 settings.given[static_cast<std::size_t>(round - 1) % settings.given.size()])
                join(edge.a, edge.b, edge.weight);
        break;
    }
    Graph graph;
    for (int a = 0; a < workers; ++a)
        for (int b = a + 1; b < workers; ++b)
            if (const double weight = weights[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
                weight > 0.0)
                graph.push_back({a, b, weight});
    return graph;
}

std::vector<bool> light_cone(const Scenario& scenario, int worker, Index first, Index last) {
    std::vector<bool> reached(static_cast<std::size_t>(scenario.workers), false);
    reached[static_cast<std::size_t>(worker)] = true;
    for (Index round = first; round <= last; ++round) {
        const std::vector<bool> before = reached;
        for (const Edge& edge : by_hand::graph_of(scenario.settings, round, scenario.workers)) {
            const auto a = static_cast<std::size_t>(edge.a);
            const auto b = static_cast<std::size_t>(edge.b);
            if (before[a])
                reached[b] = true;
            if (before[b])
                reached[a] = true;
        }
    }
    return reached;
}

void take_inner_step(State& state, const Settings& settings, std::span<const float> gradient,
                     double learning_rate, double weight_decay, Index counted) {
    const auto& hyper = settings.hyper;
    const auto rounded = [](double value) { return static_cast<float>(value); };
    const auto without_bias = [counted](double beta) {
        double power = 1.0;
        Index times = counted;
        for (double base = beta; times > 0; times /= 2, base = base * base)
            if (times % 2 == 1)
                power = power * base;
        return 1.0 - power;
    };
    const bool adamw = settings.inner == problem::gasloc::Inner::adamw;
    const bool none = !adamw && hyper.bias_correction == problem::BiasCorrection::none;
    const bool momentum = !adamw && hyper.bias_correction == problem::BiasCorrection::momentum;
    const float b1 = rounded(hyper.beta1), a1 = rounded(1.0 - hyper.beta1), b2 = rounded(hyper.beta2),
                a2 = rounded(1.0 - hyper.beta2), eps = rounded(hyper.epsilon);
    const float lr = rounded(learning_rate), keep = rounded(1.0 - learning_rate * weight_decay);
    const float inv1 = none ? 1.0F : rounded(1.0 / without_bias(hyper.beta1));
    const float invs2 = none || momentum ? 1.0F : rounded(1.0 / std::sqrt(without_bias(hyper.beta2)));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const float g = gradient[i];
        float u = g;
        if (settings.inner == problem::gasloc::Inner::adams) {
            const float m = state.m[i], q = momentum ? m * inv1 : m;
            const float second = (b2 * (q * q)) + (a2 * (g * g));
            state.m[i] = (b1 * m) + (a1 * g);
            u = (state.m[i] * inv1) / ((std::sqrt(second) * invs2) + eps);
        }
        if (adamw) {
            state.m[i] = (b1 * state.m[i]) + (a1 * g);
            state.v[i] = (b2 * state.v[i]) + (a2 * (g * g));
            u = (state.m[i] * inv1) / ((std::sqrt(state.v[i]) * invs2) + eps);
        }
        state.theta[i] = (state.theta[i] * keep) - (lr * u);
    }
}

State after_inner_steps(const Scenario& scenario, int worker, Index round, State begin) {
    if (scenario.skips(worker, round))
        return begin;
    State now = std::move(begin);
    Index step = 0;
    for (const auto& g : scenario.gradients(worker, round))
        take_inner_step(now, scenario.settings, g, scenario.learning_rate(round, ++step),
                        scenario.settings.hyper.weight_decay, ++now.s);
    return now;
}

namespace {

/// The factor by which values grow per round in the long run, or 0 if they become 0. `round` makes the next
/// values, divides them by their size and returns that size.
template <class Round>
double growth_of(int rounds, const Round& round) {
    double sum = 0.0;
    int counted = 0;
    for (int t = 1; t <= rounds; ++t) {
        const double size = round(t);
        if (size == 0.0)
            return 0.0;
        if (t > rounds / 5) { // leaves out the transient of the first fifth
            sum += std::log(size);
            ++counted;
        }
    }
    return std::exp(sum / counted);
}

/// The growth of section 15's mean squares A, B, C.
double growth_of_squares(const Settings& settings, double p, double q) {
    const double alpha = settings.alpha;
    const double g = settings.gamma;
    double A = 1.0, B = 0.5, C = 1.0;
    return growth_of(1500, [&](int) {
        const double a = A, b = B, c = C;
        if (settings.momentum == Momentum::local) {
            A = ((1 + g) * (1 + g) - 2 * (1 + g) * alpha * p + alpha * alpha * q) * a +
                2 * (g * alpha * p - (1 + g) * g) * b + g * g * c;
            B = (1 + g - alpha * p) * a - g * b;
        } else {
            A = (1 - 2 * alpha * p + alpha * alpha * q) *
                ((1 + g) * (1 + g) * a - 2 * g * (1 + g) * b + g * g * c);
            B = (1 - alpha * p) * ((1 + g) * a - g * b);
        }
        C = a;
        const double size = std::abs(A) + std::abs(B) + std::abs(C);
        for (double* value : {&A, &B, &C})
            *value /= size > 0.0 ? size : 1.0;
        return size;
    });
}

} // namespace

void take_round_without_drift(std::vector<double>& theta, std::vector<double>& before, const Graph& graph,
                              const Settings& settings) {
    const std::vector<double> y = theta;
    std::vector<double> z = y;
    for (const Edge& edge : graph) {
        const auto a = static_cast<std::size_t>(edge.a);
        const auto b = static_cast<std::size_t>(edge.b);
        z[a] -= settings.alpha / 2 * edge.weight * (y[a] - y[b]);
        z[b] -= settings.alpha / 2 * edge.weight * (y[b] - y[a]);
    }
    for (std::size_t i = 0; i < z.size(); ++i) {
        const double moves = settings.momentum == Momentum::local ? y[i] : z[i];
        theta[i] = z[i] + settings.gamma * (moves - before[i]);
        before[i] = moves;
    }
}

double growth(const Settings& settings, int workers) {
    const double n = workers;
    if (settings.law == Law::pairs)
        return growth_of_squares(settings, std::floor(n / 2) / (n - 1), std::floor(n / 2) / (n - 1));
    if (settings.law == Law::two_peers)
        return workers == 2 ? growth_of_squares(settings, 1, 1)
                            : growth_of_squares(settings, n / (n - 1), 1.5 * n / (n - 1));
    std::vector<Graph> graphs;
    for (Index round = 1; round <= 4; ++round) // with 16 workers a period has 1 to 4 rounds
        graphs.push_back(by_hand::graph_of(settings, round, workers));
    int period = 1;
    while (settings.law != Law::ring && settings.law != Law::complete && (1 << period) < workers)
        ++period;
    std::vector<double> theta(static_cast<std::size_t>(workers));
    for (std::size_t i = 0; i < theta.size(); ++i)
        theta[i] = std::sin(1.0 + static_cast<double>(i * i)); // has a part in every mode
    std::vector<double> before = theta;
    return growth_of(1500, [&](int round) {
        take_round_without_drift(theta, before, graphs[static_cast<std::size_t>((round - 1) % period)],
                                 settings);
        double mean = 0.0;
        for (const double value : theta)
            mean += value / n;
        // Removes the mean, which is no disagreement and stays.
        double size = 0.0;
        for (std::size_t i = 0; i < theta.size(); ++i) {
            theta[i] -= mean;
            before[i] -= mean;
            size += std::abs(theta[i]);
        }
        if (size < 1e-200)
            return 0.0;
        for (std::size_t i = 0; i < theta.size(); ++i) {
            theta[i] /= size;
            before[i] /= size;
        }
        return size;
    });
}

std::vector<std::vector<double>> diloco(const Scenario& scenario) {
    const std::size_t d = scenario.start.size();
    std::vector<double> sum(scenario.start.begin(), scenario.start.end());
    for (double& value : sum)
        value *= scenario.workers;
    std::vector<double> last = sum;
    std::vector<std::vector<double>> all;
    for (Index round = 1; round <= scenario.rounds; ++round) {
        std::vector<double> moved = sum;
        for (int worker = 0; worker < scenario.workers; ++worker) {
            if (scenario.skips(worker, round))
                continue;
            const auto gradients = scenario.gradients(worker, round);
            for (std::size_t h = 0; h < gradients.size(); ++h)
                for (std::size_t i = 0; i < d; ++i)
                    moved[i] -= scenario.settings.eta *
                                scenario.learning_rate(round, static_cast<Index>(h) + 1) *
                                static_cast<double>(gradients[h][i]);
        }
        for (std::size_t i = 0; i < d; ++i) {
            sum[i] = moved[i] + scenario.settings.gamma * (moved[i] - last[i]);
            last[i] = moved[i];
        }
        all.push_back(sum);
    }
    return all;
}

} // namespace truestep::properties::gasloc::by_hand
