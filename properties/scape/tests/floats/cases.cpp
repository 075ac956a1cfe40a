// Generates the inputs for the passes: all floats, pairs of exponents, special and drawn values.
#include "cases.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <truestep/distributed/scalars.hpp>

namespace truestep::properties::scape::floats {

namespace {

using problem::BiasCorrection;

Scalars ordinary_scalars() {
    Scalars s;
    s.b1 = 0.9F;
    s.a1 = 0.1F;
    s.b2 = 0.95F;
    s.a2 = 0.05F;
    s.epsilon = 1e-8F;
    s.learning_rate = 1e-3F;
    s.decay = 0.9999F;
    s.inv1 = 1.0F / 0.271F;
    s.invs2 = 1.5F;
    return s;
}

/// Fills batch `number` of the column that varies.
using Column = std::function<void(std::uint64_t number, float* column)>;

Source one_column(const OneVariable& function, Column fill) {
    return [function, fill = std::move(fill)](std::uint64_t number, Batch& batch) {
        batch.scalars = ordinary_scalars();
        batch.scalars.decay = function.decay;
        batch.scalars.workers = static_cast<float>(function.workers);
        batch.factor = 0.3F;
        batch.workers = function.workers;
        batch.masks = function.masks;
        std::fill_n(batch.input(0), function.operation->inputs * batch_size, function.others);
        fill(number, batch.input(function.column));
    };
}

std::uint64_t batches_for(std::uint64_t values) {
    return (values + batch_size - 1) / batch_size;
}

/// Draws usual and rare scalars.
void draw_scalars(Random& random, Batch& batch) {
    constexpr std::array<double, 8> betas{0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, -1.0};
    constexpr std::array<double, 6> epsilons{1e-8, 1e-6, 1e-12, 1e-15, 1e-30, 1e-40};
    constexpr std::array<double, 4> decays{0.0, 0.01, 0.1, 2.0};
    constexpr std::array<Index, 6> steps{1, 2, 3, 10, 1000, 100'000};
    constexpr std::array corrections{BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum};
    constexpr std::array kinds{Masks::full, Masks::empty, Masks::mixed, Masks::sparse};
    const auto beta = [&] {
        const double drawn = random.of(betas);
        return drawn < 0.0 ? random.unit() : drawn;
    };
    const int workers = 1 + static_cast<int>(random.below(most_inputs));
    problem::Problem problem{problem::Algorithm::scape, workers, problem::Layout({{"one", 1}}), {}, {}};
    problem.settings.beta1 = beta();
    problem.settings.beta2 = beta();
    problem.settings.epsilon = random.of(epsilons);
    problem.settings.weight_decay = random.of(decays);
    problem.settings.bias_correction = random.of(corrections);
    const double learning_rate = std::pow(10.0, -6.0 * random.unit());
    batch.scalars = distributed::scalars_of(problem, random.of(steps), learning_rate);
    batch.workers = problem.workers;
    batch.masks = random.of(kinds);
    batch.factor = static_cast<float>(std::pow(2.0, -30.0 * random.unit()));
}

void draw_inputs(Random& random, int inputs, Batch& batch) {
    for (int column = 0; column < inputs; ++column)
        for (Index i = 0; i < batch_size; ++i)
            batch.input(column)[i] = random.finite();
}

Source drawn(const Operation& operation, std::uint64_t seed) {
    return [&operation, seed](std::uint64_t number, Batch& batch) {
        Random random(seed ^ (number + 1) * 0x2545'f491'4f6c'dd1dU);
        draw_scalars(random, batch);
        draw_inputs(random, operation.inputs, batch);
        // Numbers with independent exponents never cancel.
        if (number % 2 == 1)
            for (int column = 1; column < operation.inputs; ++column)
                for (Index i = 0; i < batch_size; ++i) {
                    const auto near = std::bit_cast<Bits>(batch.input(0)[i]);
                    const auto exponent = static_cast<Bits>(
                        std::min<std::uint64_t>(254, ((near >> 23U) % 256) + random.below(5)));
                    batch.input(column)[i] = floats::number(static_cast<Bits>(random.below(2)), exponent,
                                                            static_cast<Bits>(random.bits()));
                }
    };
}

constexpr std::uint64_t exponents = 255;
constexpr std::uint64_t pairs = exponents * exponents * 4;

Source all_pairs(const Operation& operation, int one, int other, std::uint64_t seed) {
    return [&operation, one, other, seed](std::uint64_t number, Batch& batch) {
        Random random(seed ^ (number + 1) * 0x9e6c'63d0'876a'68eeU);
        draw_scalars(random, batch);
        draw_inputs(random, operation.inputs, batch);
        for (Index i = 0; i < batch_size; ++i) {
            const std::uint64_t pair = (number * batch_size + static_cast<std::uint64_t>(i)) % pairs;
            const auto mantissas = random.bits();
            batch.input(one)[i] =
                floats::number(static_cast<Bits>(pair & 1U), static_cast<Bits>(pair / 4 % exponents),
                               static_cast<Bits>(mantissas));
            batch.input(other)[i] =
                floats::number(static_cast<Bits>(pair >> 1U & 1U), static_cast<Bits>(pair / 4 / exponents),
                               static_cast<Bits>(mantissas >> 32U));
        }
    };
}

Source special(const Operation& operation, std::uint64_t seed) {
    return [&operation, seed, values = special_values()](std::uint64_t number, Batch& batch) {
        Random random(seed ^ (number + 1) * 0xd6e8'feb8'6659'fd93U);
        draw_scalars(random, batch);
        for (Index i = 0; i < batch_size; ++i) {
            std::uint64_t combination = number * batch_size + static_cast<std::uint64_t>(i);
            for (int column = 0; column < operation.inputs; ++column) {
                batch.input(column)[i] = values[static_cast<std::size_t>(
                    column < 3 ? combination % values.size() : random.below(values.size()))];
                combination /= values.size();
            }
        }
    };
}

} // namespace

std::vector<OneVariable> functions_of_one_variable() {
    std::vector<OneVariable> all{
        {"score", &score(), 0, Masks::empty},
        {"score of a payload", &score(), 0, Masks::mixed},
        {"acceptable", &acceptable()},
        {"finite", &finite()},
        {"norm's block sums", &square_sums()},
        {"local, g alone", &local(), 1, Masks::empty},
        {"local, g beside -0", &local(), 1, Masks::empty, 3, -0.0F},
        {"local, g", &local(), 1, Masks::mixed, 3, 0.1F},
        {"local, m", &local(), 0, Masks::full, 3, -0.1F},
        {"local, e", &local(), 2, Masks::sparse, 3, 0.1F},
        {"fold, one worker", &fold(), 0, Masks::full, 1},
        {"fold, first of 3", &fold(), 0, Masks::full, 3, 0.1F},
        {"fold, last of 7", &fold(), 6, Masks::full, 7},
        {"reconstruct, M alone", &reconstruct(), 0},
        {"reconstruct, m", &reconstruct(), 1, Masks::full, 3, 0.1F},
        {"clip, ghat", &clip(), 0, Masks::full, 3, 0.1F},
        {"clip, m", &clip(), 1, Masks::full, 3, 0.1F},
        {"decay", &update(), 0, Masks::empty},
        {"update, w", &update(), 0, Masks::full, 3, 0.1F},
        {"update, u", &update(), 1, Masks::mixed, 3, 0.1F},
        {"update, u, no decay", &update(), 1, Masks::full, 3, 0.1F, 1.0F},
    };
    for (const bool momentum : {false, true}) {
        const std::string of = momentum ? ", momentum" : ", adam";
        all.push_back({"direction" + of + ", M", &direction(momentum), 0, Masks::full, 3, 0.1F});
        all.push_back({"direction" + of + ", m", &direction(momentum), 1, Masks::full, 3, 0.1F});
        all.push_back({"direction" + of + ", ghat", &direction(momentum), 2, Masks::full, 3, 0.1F});
        all.push_back({"dense" + of + ", g", &dense(momentum), 0, Masks::full, 3, 0.1F});
        all.push_back({"end of step" + of + ", M", &end_of_step(momentum, false), 0, Masks::full, 3, 0.1F});
        all.push_back(
            {"end of step" + of + ", clipped, m", &end_of_step(momentum, true), 1, Masks::full, 3, 0.1F});
    }
    return all;
}

std::vector<Bits> sample_of_all_floats(Bits mantissas, std::uint64_t seed) {
    Random random(seed);
    std::vector<Bits> result;
    const Bits stride = 0x80'0000U / mantissas;
    for (Bits top = 0; top < 512; ++top) {
        for (Bits i = 0; i < mantissas; ++i) {
            result.push_back(top << 23U | i * stride);
            result.push_back(top << 23U | static_cast<Bits>(random.below(0x80'0000U)));
        }
        for (const Bits end : {1U, 2U, 0x3f'ffffU, 0x40'0001U, 0x7f'fffeU, 0x7f'ffffU})
            result.push_back(top << 23U | end);
    }
    return result;
}

Run over_sample(const OneVariable& function, std::vector<Bits> sample) {
    const std::uint64_t batches = batches_for(sample.size());
    const Column fill = [sample = std::move(sample)](std::uint64_t number, float* column) {
        for (Index i = 0; i < batch_size; ++i)
            column[i] = floats::number(
                sample[(number * batch_size + static_cast<std::uint64_t>(i)) % sample.size()]);
    };
    return {function.operation, one_column(function, fill), batches, 1};
}

Run over_all_floats(const OneVariable& function) {
    const Column fill = [](std::uint64_t number, float* column) {
        auto bits = static_cast<Bits>(number * batch_size);
        for (Index i = 0; i < batch_size; ++i)
            column[i] = floats::number(bits++);
    };
    return {function.operation, one_column(function, fill), batches_for(std::uint64_t{1} << 32U), 0};
}

std::vector<SeveralVariables> functions_of_several_variables(bool all, std::uint64_t seed) {
    const std::uint64_t rounds = all ? 16 : 1;
    const std::uint64_t stride = all ? 2 : 8;
    std::vector<SeveralVariables> result;
    for (const Operation* operation :
         {&local(), &fold(), &reconstruct(), &clip(), &update(), &direction(false), &direction(true),
          &dense(false), &dense(true), &end_of_step(false, false), &end_of_step(false, true),
          &end_of_step(true, false), &end_of_step(true, true)}) {
        const int columns = operation->inputs;
        for (int one = 0; one < std::min(columns, 3); ++one)
            for (int other = one + 1; other < std::min(columns, 3); ++other)
                result.push_back({operation->name + ", inputs " + std::to_string(one + 1) + " and " +
                                      std::to_string(other + 1),
                                  {operation, all_pairs(*operation, one, other, seed),
                                   rounds * batches_for(pairs), stride}});
        result.push_back(
            {operation->name + ", drawn", {operation, drawn(*operation, seed), rounds * 32, stride}});
        const std::uint64_t values = special_values().size();
        result.push_back({operation->name + ", special",
                          {operation, special(*operation, seed),
                           batches_for(columns < 3 ? values * values : values * values * values), 2}});
    }
    result.push_back(
        {"norm's block sums, drawn", {&square_sums(), drawn(square_sums(), seed), rounds * 16, 1}});
    return result;
}

} // namespace truestep::properties::scape::floats
