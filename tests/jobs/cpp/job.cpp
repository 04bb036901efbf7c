// A libtorch program without Python: trains a small network with Adam and dropout, writes its
// weights.
//   job OUT
#include <torch/torch.h>

#include <cstdio>
#include <string>

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: job OUT\n");
        return 2;
    }
    torch::manual_seed(23);
    auto model = torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::ReLU(),
                                       torch::nn::Dropout(0.1), torch::nn::Linear(32, 4));
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    for (int step = 0; step < 4; step++) {
        auto x = torch::randn({64, 16});
        auto y = torch::randint(4, {64}, torch::kLong);
        auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        std::printf("step %d loss %.9f\n", step, loss.item<double>());
    }
    std::FILE *out = std::fopen((std::string(argv[1]) + "/weights.bin").c_str(), "wb");
    if (out == nullptr) {
        std::perror("weights.bin");
        return 1;
    }
    for (const auto &p : model->parameters()) {
        auto t = p.detach().contiguous();
        std::fwrite(t.data_ptr(), t.element_size(), static_cast<size_t>(t.numel()), out);
    }
    return std::fclose(out) == 0 ? 0 : 1;
}
