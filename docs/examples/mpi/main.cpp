// Training over MPI: a small network, each rank with data of its own, SCAPE's step, and a checkpoint from
// which the next run goes on, with as many ranks as it then has.
//
//     mpirun -n 3 train_mpi checkpoints 300
//     mpirun -n 2 train_mpi checkpoints 600     # goes on at step 300
//
// The optimizer averages gradients itself, on the mask: they are given to it as each rank has them.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <span>
#include <vector>

#include <truestep/distributed/mpi.hpp>
#include <truestep/optimizer.hpp>

namespace {

constexpr int inputs = 4;
constexpr int hidden = 32;
constexpr int batch = 32;

// Offsets of the tensors in the flat vector of parameters.
constexpr int weights = 0;
constexpr int biases = weights + hidden * inputs;
constexpr int output = biases + hidden;
constexpr int output_bias = output + hidden;
constexpr int parameter_count = output_bias + 1;

/// Biases are always synchronized; of the weights, only those on the mask.
truestep::Layout model() {
    return truestep::Layout({{"weights", hidden * inputs, false},
                             {"biases", hidden, true},
                             {"output", hidden, false},
                             {"output_bias", 1, true}});
}

struct Example {
    std::array<float, inputs> x;
    float y; ///< what the network has to learn
};

std::vector<Example> examples(int count, std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<Example> all(static_cast<std::size_t>(count));
    for (Example& example : all) {
        for (float& x : example.x)
            x = uniform(random);
        example.y = std::sin(2.0F * example.x[0]) * example.x[1] + 0.5F * example.x[2];
    }
    return all;
}

/// Half of the mean squared error; adds its gradient to `gradient`, if that is not empty.
float loss(std::span<const float> w, const std::vector<Example>& data, std::span<float> gradient) {
    float sum = 0.0F;
    const float share = 1.0F / static_cast<float>(data.size());
    for (const Example& example : data) {
        std::array<float, hidden> h{};
        float y = w[output_bias];
        for (int j = 0; j < hidden; ++j) {
            float z = w[biases + j];
            for (int i = 0; i < inputs; ++i)
                z += w[weights + j * inputs + i] * example.x[static_cast<std::size_t>(i)];
            h[static_cast<std::size_t>(j)] = std::tanh(z);
            y += w[output + j] * h[static_cast<std::size_t>(j)];
        }
        const float error = y - example.y;
        sum += 0.5F * error * error * share;
        if (gradient.empty())
            continue;
        gradient[output_bias] += error * share;
        for (int j = 0; j < hidden; ++j) {
            const float active = h[static_cast<std::size_t>(j)];
            gradient[output + j] += error * active * share;
            const float back = error * w[output + j] * (1.0F - active * active) * share;
            gradient[biases + j] += back;
            for (int i = 0; i < inputs; ++i)
                gradient[weights + j * inputs + i] += back * example.x[static_cast<std::size_t>(i)];
        }
    }
    return sum;
}

/// The same on all ranks, since the seed is.
std::vector<float> initial_parameters() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 0.4F);
    std::vector<float> w(parameter_count);
    for (float& value : w)
        value = normal(random);
    return w;
}

void train(truestep::Communicator& communicator, const char* folder, long steps) {
    const std::vector<float> start = initial_parameters();
    truestep::Settings settings;
    settings.density = truestep::DensitySchedule::geometric(1.0, 0.1, 50);
    settings.hyper.weight_decay = 0.0;
    const auto optimizer = truestep::make_optimizer(model(), settings, communicator, start);
    if (const auto checkpoint = truestep::latest_checkpoint(folder))
        truestep::restore_checkpoint(*optimizer, communicator, *checkpoint);
    const auto begun = optimizer->steps();

    std::mt19937 common(2);
    const std::vector<Example> held_out = examples(512, common);
    const float before = loss(optimizer->parameters(), held_out, {});
    std::mt19937 own(static_cast<unsigned>(100 + communicator.rank() + 1000 * begun));
    std::vector<float> gradient(parameter_count);
    while (optimizer->steps() < steps) {
        gradient.assign(gradient.size(), 0.0F);
        static_cast<void>(loss(optimizer->parameters(), examples(batch, own), gradient));
        optimizer->step(gradient, 0.01);
    }
    truestep::save_checkpoint(*optimizer, communicator, folder);
    std::printf("rank %d of %d: steps %ld to %ld, loss %.9g, before %.9g\n", communicator.rank(),
                communicator.size(), static_cast<long>(begun), static_cast<long>(optimizer->steps()),
                static_cast<double>(loss(optimizer->parameters(), held_out, {})),
                static_cast<double>(before));
}

} // namespace

int main(int count, char** values) {
    truestep::distributed::MpiSession session(count, values);
    if (count != 3) {
        std::fprintf(stderr, "usage: mpirun -n RANKS %s FOLDER STEPS\n", values[0]);
        return 2;
    }
    const auto communicator = truestep::distributed::make_mpi_communicator();
    try {
        train(*communicator, values[1], std::strtol(values[2], nullptr, 10));
    } catch (const std::exception& error) {
        communicator->abort(error.what()); // ends all ranks: the others would wait for this one
    }
    return 0;
}
